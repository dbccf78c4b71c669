"""Cases of `benchmarks.training`: models and rows from fixed seeds.

The Countdown policy is the default base policy; its paths have about 12 tokens. Two other policies
have random weights and several end-of-text tokens, so that lengths are geometric: many short
paths, a long tail, and a few at the limit.
"""

import pathlib
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.lib.sampling.models import SHAPES, make_model
from pipeline_lib.params.paths import BootstrapParams, CountdownParams
from pipeline_lib.problems.countdown import generate
from pipeline_lib.records import Problem
from pipeline_lib.sampling.prompts import render
from pipeline_lib.sampling.worked import solution_rows
from pipeline_lib.train.bootstrap import make_base_policy, save_blank_policy
from pipeline_lib.train.phases import Row

SEED = 7
ENDS = {"long-tailed": 4, "terse": 40}
"""End-of-text tokens, of about 400, of a random policy: mean lengths of 100 and 10 tokens."""
EXAMPLES = 8
"""Solved problems before the question in a long prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One comparison."""

    model: str
    """``countdown``, ``blank``, or one of ENDS."""
    shown: int
    """Solved examples in each prompt."""
    batch_size: int
    """Prompts per step, or rows if ``group_size`` is 0."""
    group_size: int
    """Paths per prompt; 0 is SFT."""
    max_new_tokens: int
    steps: int
    """Steps per repetition."""


CASES = {
    "countdown": Case(
        model="countdown", shown=0, batch_size=64, group_size=8, max_new_tokens=32, steps=4
    ),
    "long": Case(
        model="long-tailed", shown=0, batch_size=16, group_size=8, max_new_tokens=256, steps=2
    ),
    "short": Case(
        model="terse", shown=EXAMPLES, batch_size=16, group_size=8, max_new_tokens=32, steps=4
    ),
    "sft": Case(model="blank", shown=0, batch_size=64, group_size=0, max_new_tokens=0, steps=30),
}


def make_models(folder: pathlib.Path, names: Sequence[str], *, bootstrap_steps: int) -> None:
    """Save each named model in a folder of its name; existing ones are kept."""
    problems = generate(CountdownParams(), seed=SEED, count=5000)
    params = BootstrapParams(steps=bootstrap_steps)
    for name in names:
        target = folder / name
        if target.exists():
            continue
        if name == "countdown":
            make_base_policy(
                solution_rows(problems, None), target, params=params, seed=SEED, key="benchmark"
            )
        elif name in ENDS:
            make_model(SHAPES["policy"], target, ends=ENDS[name])
        else:
            save_blank_policy(target, solution_rows(problems[:1000], None), params)


def make_problems(count: int) -> list[Problem]:
    """Problems to train on."""
    return generate(CountdownParams(), seed=SEED + 1, count=count)


def prompt_rows(problems: Sequence[Problem], *, shown: int) -> list[Row]:
    """Rows of an online method, with ``shown`` solved problems before each question."""
    solved = solution_rows(generate(CountdownParams(), seed=SEED + 2, count=shown), None)[:shown]
    before = "".join(f"{row['prompt']}{row['completion']}\n" for row in solved)
    return [{"prompt": before + render(one, None), "problem_id": one.id} for one in problems]
