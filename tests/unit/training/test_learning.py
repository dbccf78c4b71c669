"""Each method does what it is for, on a policy of a few thousand weights."""

import pathlib

import pytest

from pipeline_lib.params import BootstrapParams, Method
from pipeline_lib.records import CountdownGold, FinishReason, MathGold, Problem
from pipeline_lib.serving.chat_model import Decoding, Request
from pipeline_lib.serving.embedded import EmbeddedEngine
from pipeline_lib.training.bootstrap import make_base_policy, solution_rows
from pipeline_lib.training.methods import train_policy

RIGHT, WRONG = "2+2=4", "2*2=5"
TEXTS = [
    Problem(id=text, question="2 and 2", gold=MathGold(answer="4"), source="test", solution=text)
    for text in (RIGHT, WRONG)
]
PROMPT = solution_rows(TEXTS)[0]["prompt"]
PROBLEM = Problem(id="p", question="?", gold=CountdownGold(numbers=(2, 2), target=4), source="test")


@pytest.fixture(scope="module")
def half_right(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A policy that has learned a right and a wrong text for one prompt, in equal shares."""
    folder = tmp_path_factory.mktemp("models") / "half-right"
    params = BootstrapParams(
        hidden_size=32, num_layers=1, num_heads=2, steps=200, batch_size=8, lr=1e-2, threads=1
    )
    make_base_policy(TEXTS, folder, params=params, seed=1, key="base")
    return folder


def shares(folder: pathlib.Path) -> dict[str, float]:
    """Share of each text among 64 paths, those that did not end by themselves under ''."""
    engine = EmbeddedEngine.load(str(folder), batch_size=64)
    request = Request(prompt=PROMPT, seeds=range(64))
    paths = engine.complete([request], Decoding(max_new_tokens=8))[0]
    texts = [path.text if path.finish_reason is FinishReason.STOP else "" for path in paths]
    return {text: texts.count(text) / 64 for text in {*texts, RIGHT, WRONG}}


def test_supervised_steps_teach_the_texts_and_to_end(half_right: pathlib.Path):
    """Two rows of equal weight: each is drawn in a fair share, and hardly anything else."""
    found = shares(half_right)
    assert found[RIGHT] + found[WRONG] >= 0.9
    assert min(found[RIGHT], found[WRONG]) >= 0.25


@pytest.mark.parametrize(("method", "lr"), [(Method.DPO, 1e-4), (Method.GRPO, 2e-3)])
def test_mass_moves_from_the_wrong_text_to_the_right_one(
    method, lr, half_right, request_for, tmp_path
):
    """From less than twice as many right paths as wrong ones to more, by pairs or by rewards."""
    row = {"prompt": PROMPT, "chosen": RIGHT, "rejected": WRONG, "problem_id": "p"}
    request = request_for(
        method,
        tmp_path / "out",
        base=str(half_right),
        rows=[row],
        problems=[PROBLEM],
        train={"steps": 30, "lr": lr, "group_size": 8, "warm_start_steps": 0, "entropy_coef": 0},
    )
    train_policy(request)
    before, after = shares(half_right), shares(tmp_path / "out")
    assert before[RIGHT] < 2 * before[WRONG]
    assert after[RIGHT] > 2 * after[WRONG]
    assert after[RIGHT] > before[RIGHT]
