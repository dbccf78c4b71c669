"""A model that can be loaded can be saved, whatever generation config it is shipped with."""

import json
import pathlib
import shutil

import pytest
from transformers import AutoModelForCausalLM, GenerationConfig

from pipeline_lib.params.train import Method
from pipeline_lib.train.bootstrap import make_base_policy
from pipeline_lib.train.methods import train_policy
from pipeline_lib.train.weights.compact_chat import write_compact_chat
from pipeline_lib.train.weights.export import export_model

SAMPLED = {"temperature": 0.6, "top_p": 0.9}
SHIPPED = {
    "sampling": SAMPLED,
    "a pad token below 0": {"pad_token_id": -1, **SAMPLED},
    "beams": {"early_stopping": True},
    "a cache that is off": {"use_cache": False, "cache_implementation": "static"},
}


def shipped(base: pathlib.Path, folder: pathlib.Path, fields: dict[str, object]) -> pathlib.Path:
    """The base with ``fields`` in its generation config, beside its end token."""
    shutil.copytree(base, folder)
    path = folder / "generation_config.json"
    path.write_text(json.dumps({"eos_token_id": 1} | fields), encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", SHIPPED)
def test_a_copy_keeps_the_tokens(name, base, tiny, tmp_path):
    """The end token is kept; flags are kept where sampling gives them a meaning."""
    source = shipped(base, tmp_path / "source", SHIPPED[name])
    params = tiny.model_copy(update={"model": str(source)})
    make_base_policy([], tmp_path / "copy", params=params, seed=1, key="copy")
    saved = GenerationConfig.from_pretrained(tmp_path / "copy")
    assert saved.eos_token_id == 1
    if name == "sampling":
        assert (saved.do_sample, saved.temperature, saved.top_p) == (True, 0.6, 0.9)
    AutoModelForCausalLM.from_pretrained(tmp_path / "copy").save_pretrained(tmp_path / "again")


def test_every_writer_takes_such_a_model(base, request_for, tmp_path):
    """A training with checkpoints, an export and a chat model end; before, each ended with a traceback."""
    source = shipped(base, tmp_path / "source", SAMPLED)
    train_policy(request_for(Method.SFT, tmp_path / "policy", base=str(source)))
    export_model(str(source), tmp_path / "export")
    (tmp_path / "chat").mkdir()
    write_compact_chat(str(source), tmp_path / "chat")
    for name in ("policy", "export", "chat"):
        assert GenerationConfig.from_pretrained(tmp_path / name).temperature == 0.6
