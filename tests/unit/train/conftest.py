"""Fixtures: a tiny Countdown policy and rows to train it on, made in a second."""

import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.paths import BootstrapParams, CountdownParams, VerifyParams
from pipeline_lib.params.train import Method, TrainParams
from pipeline_lib.problems.countdown import generate
from pipeline_lib.records import Problem
from pipeline_lib.sampling.prompts import render
from pipeline_lib.sampling.worked import solution_rows
from pipeline_lib.train.bootstrap import make_base_policy
from pipeline_lib.train.methods import TrainingRequest
from pipeline_lib.train.phases import Row


@pytest.fixture(scope="session")
def tiny() -> BootstrapParams:
    """One layer, three steps."""
    return BootstrapParams(
        hidden_size=16,
        num_layers=1,
        num_heads=2,
        steps=3,
        batch_size=4,
        checkpoint_every=2,
        threads=1,
    )


@pytest.fixture(scope="session")
def problems() -> list[Problem]:
    """Twenty-four small Countdown problems."""
    return generate(CountdownParams(num_numbers=2, high=9, target_high=60), seed=4, count=24)


@pytest.fixture(scope="session")
def base(
    tiny: BootstrapParams, problems: list[Problem], tmp_path_factory: pytest.TempPathFactory
) -> pathlib.Path:
    """A base policy of one layer after three steps."""
    folder = tmp_path_factory.mktemp("models") / "base"
    make_base_policy(
        solution_rows(problems, None), folder, params=tiny, seed=1, key="base", problems=problems
    )
    return folder


@pytest.fixture(scope="session")
def rows(problems: list[Problem]) -> list[Row]:
    """Rows with the columns of every method: SFT, DPO and GRPO."""
    return [
        {
            "prompt": render(problem, None),
            "completion": problem.solution,
            "chosen": problem.solution,
            "rejected": "1+1=2",
            "problem_id": problem.id,
        }
        for problem in problems
    ]


RIGHT, WRONG = "2+2=4", "2*2=5"
_TWO_TWOS = Problem(id="p", question="2 and 2", gold=MathGold(answer="4"), source="test")
TEXT_ROWS = [{"prompt": render(_TWO_TWOS, None), "completion": text} for text in (RIGHT, WRONG)]


@pytest.fixture(scope="session")
def half_right(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A policy that has learned a right and a wrong text for one prompt, in equal shares."""
    folder = tmp_path_factory.mktemp("models") / "half-right"
    params = BootstrapParams(
        hidden_size=32, num_layers=1, num_heads=2, steps=200, batch_size=8, lr=1e-2, threads=1
    )
    make_base_policy(TEXT_ROWS, folder, params=params, seed=1, key="base")
    return folder


@pytest.fixture(scope="session")
def half_solved(half_right: pathlib.Path) -> dict[str, Any]:
    """Request fields on that prompt, for every method: half of the paths drawn are right."""
    gold = CountdownGold(numbers=(2, 2), target=4)
    row = TEXT_ROWS[0] | {"chosen": RIGHT, "rejected": WRONG, "problem_id": "p"}
    return {
        "base": str(half_right),
        "rows": [row],
        "warm_start_rows": [row],
        "problems": [Problem(id="p", question="?", gold=gold, source="test")],
    }


@pytest.fixture(scope="session")
def request_for(
    base: pathlib.Path, rows: list[Row], problems: list[Problem]
) -> Callable[..., TrainingRequest]:
    """Makes the request of a six-step training with a checkpoint at every second step."""

    def make(method: Method, output: pathlib.Path, **changes: Any) -> TrainingRequest:
        train = {
            "steps": 6,
            "batch_size": 4,
            "group_size": 4,
            "lr": 1e-3,
            # No path of the tiny policy is right, so only the entropy bonus has a gradient.
            "entropy_coef": 0.1,
            "warm_start_steps": 2,
            "warm_start_batch_size": 4,
            "checkpoint_every": 2,
            "threads": 1,
        } | changes.pop("train", {})
        fields = {
            "base": str(base),
            "rows": rows,
            "warm_start_rows": rows,
            "problems": problems,
            "seed": 5,
            "key": "key",
        } | changes
        return TrainingRequest(
            output=output,
            params=TrainParams(method=method, **train),
            verify=VerifyParams(),
            max_new_tokens=8,
            **fields,
        )

    return make
