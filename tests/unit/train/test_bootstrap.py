"""The base policy: a standard Llama folder with a lossless tokenizer."""

import pathlib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

from pipeline_lib.engines.pretrained import load_chat_format
from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.problems.trained import trained_on
from pipeline_lib.records import Problem
from pipeline_lib.sampling.worked import solution_rows
from pipeline_lib.store.files import read_json_lines
from pipeline_lib.store.manifests import current
from pipeline_lib.train.bootstrap import make_base_policy, make_tokenizer
from pipeline_lib.train.weights.gguf_import import import_gguf
from tests.unit.train.weights.gguf_files import tiny_llama, write_gguf

WORKED = Problem(
    id="w",
    question="What is 1+1?",
    gold=MathGold(answer="2"),
    source="test",
    solution="1+1=<<1+1=2>>2\n#### 2",
)
TOKENIZER = make_tokenizer(["12,5,3=51\n", "12+5=17\n17*3=51"])


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_the_tokenizer_is_lossless(text):
    """The alphabet is bytes, so decoding the tokens of any text gives the text."""
    ids = TOKENIZER.encode(text, add_special_tokens=False)
    assert TOKENIZER.decode(ids) == text


def test_numbers_are_tokens_and_nothing_is_added():
    """Six tokens for 12 + 5 = 17 and the newline; with or without special tokens."""
    ids = TOKENIZER.encode("12+5=17\n", add_special_tokens=False)
    assert [TOKENIZER.decode([i]) for i in ids] == ["12", "+", "5", "=", "17", "\n"]
    assert TOKENIZER("12+5=17\n")["input_ids"] == ids


def test_tokens_do_not_span_prompt_and_completion():
    """Prompt and completion tokenized separately give the tokens of both together."""
    prompt, completion = "12,5,3=51\n", "12+5=17\n17*3=51"
    apart = [*TOKENIZER.encode(prompt), *TOKENIZER.encode(completion)]
    assert apart == TOKENIZER.encode(prompt + completion)


def test_all_solutions_of_a_problem_are_learned():
    """2, 2 -> 4 is solved by the sum and by the product; each is a row with the same prompt."""
    gold = CountdownGold(numbers=(2, 2), target=4)
    rows = solution_rows(
        [Problem(id="p", question="?", gold=gold, source="test", solution="2+2=4")], None
    )
    assert rows == [
        {"problem_id": "p", "prompt": "2,2=4\n", "completion": "2*2=4"},
        {"problem_id": "p", "prompt": "2,2=4\n", "completion": "2+2=4"},
    ]


def test_the_folder_loads_as_a_llama(base: pathlib.Path):
    """The auto classes load it, and the end and pad tokens are the tokenizer's."""
    model = AutoModelForCausalLM.from_pretrained(base)
    tokenizer = AutoTokenizer.from_pretrained(base)
    assert isinstance(model, LlamaForCausalLM)
    assert tokenizer.chat_template is None
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert model.config.pad_token_id == tokenizer.pad_token_id
    assert current(base, kind="model", key="base") is not None


def test_the_seed_determines_the_weights(
    base: pathlib.Path, problems, tiny, tmp_path: pathlib.Path
):
    """Seed 1 again gives the same digest; seed 2 gives another."""
    digests = [
        make_base_policy(
            solution_rows(problems, None), tmp_path / str(seed), params=tiny, seed=seed, key="base"
        ).digest
        for seed in (1, 2)
    ]
    assert digests[0] == current(base, kind="model", key="base").digest
    assert digests[1] != digests[0]


def test_a_given_model_is_copied(base: pathlib.Path, problems, tiny, tmp_path: pathlib.Path):
    """Without training: the weights of the copy are the bytes of the original, and so is its record."""
    params = tiny.model_copy(update={"model": str(base)})
    make_base_policy([], tmp_path / "copy", params=params, seed=1, key="copy")
    weights = "model.safetensors"
    assert (tmp_path / "copy" / weights).read_bytes() == (base / weights).read_bytes()
    [sentence] = trained_on({"the copy": str(tmp_path / "copy")}, problems)
    assert sentence.startswith(
        "NOT HELD OUT: 24 of 24 evaluated problems were in a training of the copy"
    )


@pytest.fixture(scope="module")
def chat_model(tmp_path_factory) -> pathlib.Path:
    """A tiny model in bfloat16 with a chat template."""
    folder = tmp_path_factory.mktemp("chat")
    source = write_gguf(folder / "tiny.gguf", tiny_llama())
    import_gguf(source, folder / "model", dtype="bfloat16")
    return folder / "model"


def weights_of(folder: pathlib.Path) -> dict[str, torch.Tensor]:
    return AutoModelForCausalLM.from_pretrained(folder, dtype="auto").state_dict()


def test_a_given_model_keeps_its_precision(chat_model, tiny, tmp_path: pathlib.Path):
    """The copy is no larger than the original, although training computes in float32."""
    params = tiny.model_copy(update={"model": str(chat_model)})
    make_base_policy([], tmp_path / "copy", params=params, seed=1, key="copy")
    before, after = weights_of(chat_model), weights_of(tmp_path / "copy")
    assert {weight.dtype for weight in after.values()} == {torch.bfloat16}
    assert all(torch.equal(after[name], before[name]) for name in before)


def test_a_given_model_learns_the_answer_format(chat_model, tiny, tmp_path: pathlib.Path):
    """SFT on worked solutions in its own chat template raises their likelihood."""
    update = {"model": str(chat_model), "format_steps": 4, "lr": 1e-2}
    params = tiny.model_copy(update=update)
    rows = solution_rows([WORKED], load_chat_format(str(chat_model)))
    assert rows[0]["prompt"].startswith("<|im_start|>user\n")
    assert rows[0]["completion"] == "1+1=2\n\\boxed{2}"
    make_base_policy(rows, tmp_path / "taught", params=params, seed=1, key="taught")
    log = list(read_json_lines(tmp_path / "taught" / "training_log.jsonl"))
    assert [row["phase"] for row in log] == ["format"] * 4
    assert log[-1]["loss"] < log[0]["loss"] - 1
    with pytest.raises(BadInputError, match=r"worked solution.*bootstrap\.format_steps=0"):
        make_base_policy([], tmp_path / "none", params=params, seed=1, key="none")


def test_a_missing_model_is_bad_input(tiny, tmp_path: pathlib.Path):
    """The message names the folder and the remedy."""
    params = tiny.model_copy(update={"model": str(tmp_path / "nowhere")})
    with pytest.raises(BadInputError, match=r"nowhere.*Hugging Face folder"):
        make_base_policy([], tmp_path / "copy", params=params, seed=1, key="copy")


def test_problems_without_solutions_are_bad_input(tiny, tmp_path: pathlib.Path):
    """There are no rows for SFT; the message names the remedy."""
    problem = Problem(id="p", question="?", gold=MathGold(answer="1"), source="test")
    assert solution_rows([problem], None) == []
    with pytest.raises(BadInputError, match=r"no problem has a worked solution.*bootstrap\.model"):
        make_base_policy(
            solution_rows([problem], None), tmp_path / "base", params=tiny, seed=1, key="key"
        )
