"""Golds: those that no answer could be judged against are found when the data set is built."""

import json

import pytest

from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.verify.golds import open_gold_check


@pytest.fixture(scope="module")
def gold_problem():
    with open_gold_check() as check:
        yield check


USABLE = (
    *("72", "\\frac{1}{2}", "x^2-1", "\\text{Evelyn}", "9" * 5000, "25\\%", "5.5 percent"),
    *("33\\frac{1}{3}\\%", "(20\\%, 30\\%)", "9:30 a.m.", "1 hour 30 minutes"),
    "The answer is 24",
)
UNUSABLE = {
    "": "empty",
    " $ $ ": "empty",
    "10^{10^{10}}": "bits",
    "\\frac{": "cannot be parsed",
    "N/A": "states no answer",
    "see above": "states no answer",
    "There are 24 apples in the basket": "a sentence",
}


@pytest.mark.parametrize("answer", [*USABLE, *UNUSABLE])
def test_golds_that_can_be_used(gold_problem, answer):
    """Numbers, expressions, words, percentages, times; an empty or broken one is refused with the reason."""
    found = gold_problem(MathGold(answer=answer))
    assert found is None if answer in USABLE else UNUSABLE[answer] in found


def test_other_kinds_have_no_broken_golds(gold_problem):
    """A Countdown gold is numbers; there is nothing to parse."""
    assert gold_problem(CountdownGold(numbers=(1, 2), target=3)) is None


def test_golds_of_published_data_can_be_used(gold_problem, data_folder):
    """Every tenth MATH-500 gold and every contest gold is fine."""
    rows = []
    for name in ("math500", "aime24", "aime25", "hmmt25"):
        lines = (data_folder / name / "test.jsonl").read_text(encoding="utf-8").splitlines()
        rows += [json.loads(line) for line in (lines[::10] if name == "math500" else lines)]
    answers = [str(row["answer"]) for row in rows]
    assert [a for a in answers if gold_problem(MathGold(answer=a)) is not None] == []
