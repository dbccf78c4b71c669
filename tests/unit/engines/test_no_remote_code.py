"""Code in a model's folder is never run, and transformers does not prompt on the terminal."""

import json
import pathlib

import pytest

from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.engines.pretrained import load_tokenizer
from pipeline_lib.errors import BadInputError
from pipeline_lib.train.weights import models, policies

CODE = (
    "import pathlib\npathlib.Path({mark!r}).touch()\nfrom transformers import PretrainedConfig\n"
    "class Own(PretrainedConfig):\n    model_type = 'own'\n"
)
FILES = {
    "config.json": {"model_type": "own", "auto_map": {"AutoConfig": "own.Own"}},
    "tokenizer_config.json": {
        "tokenizer_class": "Own",
        "auto_map": {"AutoTokenizer": ["own.Own", None]},
    },
}


@pytest.fixture
def model_with_code(tmp_path, monkeypatch) -> pathlib.Path:
    """A folder whose code leaves a mark; a prompt on the terminal is an error."""

    def refuse_input(*_):
        raise AssertionError("prompted on the terminal")

    monkeypatch.setattr("builtins.input", refuse_input)
    folder = tmp_path / "model"
    folder.mkdir()
    for name, content in FILES.items():
        (folder / name).write_text(json.dumps(content))
    (folder / "own.py").write_text(CODE.format(mark=str(tmp_path / "mark")))
    return folder


@pytest.mark.parametrize(
    "load",
    [
        load_tokenizer,
        lambda source: EmbeddedEngine.load(source, batch_size=1),
        models.load_model,
        policies.load_tokenizer,
    ],
    ids=["tokenizer", "engine", "policy", "tokenizer of a policy"],
)
def test_a_model_with_code_is_bad_input(model_with_code, load):
    """One line, no prompt, and the code was not run."""
    with pytest.raises(BadInputError) as caught:
        load(str(model_with_code))
    assert "\n" not in str(caught.value)
    assert not (model_with_code.parent / "mark").exists()


@pytest.mark.parametrize(
    "config",
    [
        "",
        "[]",
        "{",
        "[" * 100_000,
        '{"model_type": 3}',
        '{"model_type": "llama", "vocab_size": "x"}',
    ],
)
@pytest.mark.parametrize("load", [load_tokenizer, models.load_model], ids=["tokenizer", "model"])
def test_a_damaged_model_is_bad_input(tmp_path, config, load):
    """For any content of its config."""
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(BadInputError) as caught:
        load(str(tmp_path))
    assert "\n" not in str(caught.value)
