"""Policies on disk: loaded and saved with the tokenizer of their source, whatever their generation config."""

import json
import pathlib
import shutil

import pytest
from tokenizers import processors
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.train import Method
from pipeline_lib.train.bootstrap import make_base_policy
from pipeline_lib.train.methods import train_policy
from pipeline_lib.train.token_budget import Tokens
from pipeline_lib.train.weights.export import export_model, write_compact_chat
from pipeline_lib.train.weights.policies import load_policy, save_policy


@pytest.fixture
def greeting(base: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    """The base with a tokenizer that prepends its pad token to every text, as others do a BOS."""
    folder = tmp_path / "greeting"
    shutil.copytree(base, folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<pad> $A", special_tokens=[("<pad>", tokenizer.pad_token_id)]
    )
    tokenizer.save_pretrained(folder)
    return folder


def test_a_saved_policy_has_the_tokenizer_of_its_source(
    greeting: pathlib.Path, tmp_path: pathlib.Path
):
    """A pad token that training sets is not saved, and a token before each text stays."""
    policy = load_policy(str(greeting))
    save_policy(
        policy.model,
        tmp_path / "out",
        source=str(greeting),
        log=[],
        key="k",
        tokens=Tokens(trained=7, drawn=5),
    )
    saved = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert saved("3")["input_ids"][0] == saved.pad_token_id


def test_a_tokenizer_without_an_end_token_is_bad_input(base: pathlib.Path, tmp_path: pathlib.Path):
    """Training needs an end token; the message names the remedy."""
    folder = tmp_path / "endless"
    shutil.copytree(base, folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.eos_token = None
    tokenizer.save_pretrained(folder)
    with pytest.raises(BadInputError, match="no eos_token"):
        load_policy(str(folder))


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
