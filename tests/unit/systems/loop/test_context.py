"""Prompts that do not fit are named before sampling."""

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params_file import load_params
from pipeline_lib.records import Problem
from pipeline_lib.store.files import read_json, write_json
from pipeline_lib.systems.loop import context
from pipeline_lib.systems.loop.by_hand.sample import sample_to_file
from pipeline_lib.systems.loop.context import check_context, check_rows
from pipeline_lib.train.weights.gguf_import import import_gguf
from tests.unit.train.weights.gguf_files import tiny_llama, write_gguf

ASKED = Problem(id="short", question="1+1?", gold=MathGold(answer="2"), source="test")
LONG = Problem(id="long", question="12 " * 40, gold=MathGold(answer="2"), source="test")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model with a context of 300 tokens; its vocabulary has the tokens of single bytes."""
    folder = tmp_path_factory.mktemp("context")
    import_gguf(write_gguf(folder / "t.gguf", tiny_llama()), folder / "model", dtype="float32")
    config = folder / "model" / "config.json"
    write_json(config, read_json(config) | {"max_position_embeddings": 300})
    return folder / "model"


def test_a_long_prompt_is_named(model):
    """Problem, its tokens, the room and the remedy."""
    check_context([ASKED], model, max_new_tokens=20)
    with pytest.raises(
        BadInputError, match=r"problem long: its prompt has 2\d\d tokens.*leaves 100"
    ):
        check_context([ASKED, LONG], model, max_new_tokens=200)


def test_examples_count(model):
    """A prompt that fits alone does not after four examples."""
    example = Problem(
        id="e", question="2+3?", gold=MathGold(answer="5"), source="test", solution="#### 5"
    )
    check_context([ASKED], model, max_new_tokens=20)
    with pytest.raises(BadInputError, match=r"problem short.*sample\.shots"):
        check_context([ASKED], model, max_new_tokens=20, examples=[example] * 4)


def test_long_rows_of_format_teaching_are_named(model):
    """Prompt, solution and end token: 298 characters and the end are 299 tokens, 300 are 301."""
    row = {"problem_id": "p", "prompt": "x" * 200, "completion": "y" * 98}
    check_rows([row], model)
    with pytest.raises(BadInputError, match=r"problem p: .* 301 tokens.*format_steps=0"):
        check_rows([row, row | {"completion": "y" * 100}], model)


def test_the_command_sample_checks_prompts_first(model, tmp_path):
    """Before an engine starts."""
    params = load_params(
        overrides=[
            "prepare.dataset=word-problems",
            "prepare.train_problems=2",
            "prepare.test_problems=2",
            "prepare.bootstrap_problems=2",
            "sample.max_new_tokens=250",
        ]
    )
    with pytest.raises(BadInputError, match=r"its prompt has .* leaves 50"):
        sample_to_file(str(model), tmp_path / "out.jsonl", params)
    assert not list(tmp_path.iterdir())


def test_short_texts_need_no_tokenizer(model, monkeypatch):
    """In a long context the bytes of the questions are enough."""
    config = model / "config.json"
    before = read_json(config)
    write_json(config, before | {"max_position_embeddings": 4096})
    monkeypatch.setattr(context, "_check_exactly", pytest.fail)
    check_context([ASKED, LONG], model, max_new_tokens=200)
    write_json(config, before)


def test_a_hub_id_is_left_to_the_engine(tmp_path):
    """There is no folder to read a context from."""
    check_context([LONG], tmp_path / "owner" / "name", max_new_tokens=10**6)
