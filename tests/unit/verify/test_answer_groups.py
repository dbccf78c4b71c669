"""Grouping of answers without a gold."""

import pytest

from pipeline_lib.kinds.arc import ARC
from pipeline_lib.kinds.code import CODE
from pipeline_lib.kinds.countdown import COUNTDOWN
from pipeline_lib.kinds.math import MATH
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.verify.dispatch import AnswerBook, open_verifier


@pytest.fixture(scope="module")
def verifier():
    with open_verifier(VerifyParams()) as opened:
        yield opened


def numbers(kind, texts, verifier):
    book = AnswerBook(kind=kind, verifier=verifier)
    return [book.number(text) for text in texts]


def test_equivalent_mathematics_is_one_answer(verifier):
    """Fractions, decimals and symbols are compared by value, not by spelling."""
    texts = ["\\boxed{1/2}", "The answer is 0.5", "\\boxed{x+1}", "\\boxed{1+x}", "\\boxed{3}"]
    assert numbers(MATH, texts, verifier) == [0, 0, 1, 1, 2]


def test_no_answer_is_none(verifier):
    """It is no answer of its own, for any kind."""
    assert numbers(MATH, ["I do not know."], verifier) == [None]
    assert numbers(COUNTDOWN, ["hello"], verifier) == [None]
    assert numbers(ARC, ["no grid"], verifier) == [None]
    assert numbers(CODE, ["  "], verifier) == [None]


def test_countdown_solutions_are_one_up_to_commuting(verifier):
    """Steps, tags and prose that compute the same from the same are one; a difference is not
    commuted, and another way to the same value is another answer."""
    texts = [
        "3+5=8\n8*3=24",
        "5+3=8\n3*8=24",
        "<answer>(3+5)*3</answer>",
        "so we get 3*(5+3) = 24",
        "3*5=15\n15+9=24",
        "9-4=5",
        "4-9=5",
    ]
    assert numbers(COUNTDOWN, texts, verifier) == [0, 0, 0, 0, 1, 2, 3]


def test_countdown_steps_are_not_checked(verifier):
    """A wrong sum is an answer like any other: to weed it out would be to verify."""
    assert numbers(COUNTDOWN, ["3+5=9", "3+5=8", "5+3=9"], verifier) == [0, 1, 0]


def test_an_expression_that_cannot_be_computed_stands_for_its_spelling(verifier):
    """Division by zero has no steps."""
    texts = ["<answer>3/(2-2)</answer>", "<answer>3 / (2-2)</answer>", "<answer>4/0</answer>"]
    assert numbers(COUNTDOWN, texts, verifier) == [0, 0, 1]


def test_grids_are_one_by_their_cells(verifier):
    """However they are written."""
    texts = ["```\n1 2\n3 4\n```", "[[1,2],[3,4]]", "```\n1 2\n```"]
    assert numbers(ARC, texts, verifier) == [0, 0, 1]


def test_programs_are_never_one(verifier):
    """Spelled alike or not."""
    assert numbers(CODE, ["f = 1", "f = 1"], verifier) == [0, 1]
