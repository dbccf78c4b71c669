"""Golds and ids of problems with a short final answer."""

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.problems.data_set import RawRow
from pipeline_lib.problems.math_word import contest_problem, gsm8k_problem


def row_of(**fields: object) -> RawRow:
    return RawRow(fields=fields, where="set.jsonl:7", index=6)


def test_gsm8k_gold_is_what_follows_the_mark():
    """The gold is the last line's number without thousands separators; the solution stays raw."""
    answer = "He has 900 + 180 = <<900+180=1080>>1080.\n#### 1,080"
    problem = gsm8k_problem(
        row_of(question="How many?", answer=answer), id_prefix="gsm8k-train", source="gsm8k"
    )
    assert problem.gold == MathGold(answer="1080")
    assert problem.id == "gsm8k-train-6"
    assert problem.solution == answer


@pytest.mark.parametrize(
    ("written", "gold"),
    [("2,3", "2,3"), ("12,5", "12,5"), ("1,234,567", "1234567"), ("$1,080", "$1080")],
)
def test_only_commas_of_thousands_are_dropped(written: str, gold: str):
    """A list or a decimal comma is another number without its comma."""
    row = row_of(question="How many?", answer=f"so\n#### {written}")
    problem = gsm8k_problem(row, id_prefix="gsm8k-train", source="gsm8k")
    assert problem.gold == MathGold(answer=gold)


@pytest.mark.parametrize("answer", ["1080", "#### ", "#### ,"])
def test_gsm8k_without_an_answer_is_refused(answer: str):
    """No mark, or nothing after it, is an error of the data, not an empty gold."""
    with pytest.raises(BadInputError, match=r"set\.jsonl:7: 'answer'"):
        gsm8k_problem(row_of(question="?", answer=answer), id_prefix="g", source="g")


@pytest.mark.parametrize(
    ("fields", "gold"),
    [
        ({"answer": " 204 "}, "204"),
        ({"answer": 204}, "204"),
        ({"solution": r"Hence \boxed{\frac{1}{2}}."}, r"\frac{1}{2}"),
        ({"answer": r"\frac12", "solution": r"Hence \boxed{0.5}."}, r"\frac12"),
    ],
)
def test_contest_gold(fields: dict, gold: str):
    """``answer`` is the gold, as text or number; without it, the last box of the solution."""
    problem = contest_problem(row_of(problem="?", **fields), id_prefix="aime24-test", source="a")
    assert problem.gold == MathGold(answer=gold)


def test_publisher_id_is_kept():
    """A row with an id keeps it, others are numbered in file order."""
    named = contest_problem(
        row_of(problem="?", answer="1", unique_id="math500/3"), id_prefix="math-test", source="m"
    )
    unnamed = contest_problem(row_of(problem="?", answer="1"), id_prefix="math-test", source="m")
    assert (named.id, unnamed.id) == ("math500/3", "math-test-6")


@pytest.mark.parametrize("fields", [{}, {"answer": " "}, {"solution": "no box"}])
def test_contest_without_an_answer_is_refused(fields: dict):
    """A row without any final answer names its place."""
    with pytest.raises(BadInputError, match=r"set\.jsonl:7: 'answer"):
        contest_problem(row_of(problem="?", **fields), id_prefix="a", source="a")
