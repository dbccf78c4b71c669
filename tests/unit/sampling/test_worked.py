"""Worked solutions as SFT rows, in the prompt and format of sampled paths."""

import pytest

from pipeline_lib.kinds.arc import ArcGold
from pipeline_lib.kinds.code import CodeGold
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.records import Problem
from pipeline_lib.sampling.prompts import render
from pipeline_lib.sampling.worked import solution_rows
from pipeline_lib.verify.dispatch import Item, open_verifier

GSM8K = "She sells 16 - 3 = <<16-3=13>>13 eggs.\nThat is 13 * 2 = $<<13*2=26>>26.\n#### 26"
PROBLEMS = [
    Problem(id="gsm8k", question="?", gold=MathGold(answer="26"), source="gsm8k", solution=GSM8K),
    Problem(
        id="thousand",
        question="?",
        gold=MathGold(answer="1080"),
        source="gsm8k",
        solution="9 * 120 = <<9*120=1080>>1080\n#### 1,080",
    ),
    Problem(
        id="math",
        question="?",
        gold=MathGold(answer=r"\frac12"),
        source="math",
        solution=r"Half of one is \boxed{\frac12}.",
    ),
    Problem(
        id="aime", question="?", gold=MathGold(answer="204"), source="aime", solution="So 204."
    ),
    Problem(
        id="code",
        question="?",
        gold=CodeGold(entry_point="add", tests="assert add(1, 2) == 3"),
        source="mbpp",
        solution="def add(a, b):\n    return a + b\n",
    ),
    Problem(
        id="arc",
        question="?",
        gold=ArcGold(output=((1, 2), (3, 4))),
        source="arc",
        solution="```\n1 2\n3 4\n```",
    ),
    Problem(
        id="countdown",
        question="?",
        gold=CountdownGold(numbers=(2, 3), target=6),
        source="countdown",
        solution="3*2=6",
    ),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.id)
def test_every_kind_is_strictly_right(problem):
    """The verifier scores each row as strictly right."""
    rows = solution_rows([problem], None)
    assert rows
    with open_verifier(VerifyParams()) as verifier:
        verdicts = verifier.judge([Item(gold=problem.gold, text=row["completion"]) for row in rows])
    assert [verdict.strict for verdict in verdicts] == [True] * len(rows)
    assert {row["prompt"] for row in rows} == {render(problem, None)}


def test_calculator_marks_and_the_final_line_are_replaced():
    """Calculator marks <<16-3=13>> and the #### 26 line of GSM8K are removed."""
    (row,) = solution_rows(PROBLEMS[:1], None)
    assert row["completion"] == ("She sells 16 - 3 = 13 eggs.\nThat is 13 * 2 = $26.\n\\boxed{26}")


def test_a_solution_that_is_boxed_already_stays_as_it_is():
    """Solutions of MATH contain the box."""
    (row,) = solution_rows([PROBLEMS[2]], None)
    assert row["completion"] == PROBLEMS[2].solution


def test_a_problem_without_a_worked_solution_gives_no_row():
    """A Countdown problem without a stored solution gives no row."""
    gold = CountdownGold(numbers=(2, 3), target=6)
    assert solution_rows([Problem(id="p", question="?", gold=gold, source="test")], None) == []
