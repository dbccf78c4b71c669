"""Kinds one by one: ids of ARC problems, golds in worked solutions, the exhaustive solver of Countdown."""

import itertools
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.arc import PuzzleInput, puzzle_input_of
from pipeline_lib.kinds.countdown import COUNTDOWN, solutions
from pipeline_lib.kinds.math import last_boxed, reference_answer
from tests.unit.countdown_steps import OPERATIONS, replay


@pytest.mark.parametrize("puzzle_id", ["0a1d4ef5", "Copy1", "a/b"])
def test_ids_name_puzzle_and_test_input(puzzle_id: str):
    """A problem's id says which test input of which puzzle it asks about."""
    asked = PuzzleInput(puzzle_id=puzzle_id, index=12)
    assert puzzle_input_of(asked.problem_id) == asked


@pytest.mark.parametrize(
    "problem_id", ["gsm8k-test-0", "/0", "0a1d4ef5/", "0a1d4ef5/x", "a/-1", ""]
)
def test_other_ids_are_refused(problem_id: str):
    """An id of another data set names no test input."""
    with pytest.raises(BadInputError, match="is no id of an ARC problem"):
        puzzle_input_of(problem_id)


@pytest.mark.parametrize(
    ("reference", "answer"),
    [
        ("6+12=18\n#### 18", "18"),
        ("6+12=18\nA: 18\n", "18"),
        ("18", "18"),
        ("#### 18\nThus 18 ducks.", "18"),
        ("", ""),
    ],
)
def test_the_answer_of_a_reference(reference, answer):
    """A worked solution ends in its answer."""
    assert reference_answer(reference) == answer


@pytest.mark.parametrize(
    ("solution", "content"),
    [
        (r"\boxed{1} or \boxed{2}", "2"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{1} then \boxed{2", "1"),
        (r"\fbox{7}", "7"),
        ("nothing", None),
    ],
)
def test_last_boxed_cases(solution: str, content: str | None):
    """The last balanced box counts; escaped braces do not balance anything."""
    assert last_boxed(solution) == content


balanced = st.recursive(
    st.text(alphabet="ab1 +", max_size=5),
    lambda inner: st.builds("{}{{{}}}{}".format, inner, inner, inner),
    max_leaves=8,
)


@given(before=balanced, content=balanced, after=st.text(alphabet="ab}. ", max_size=10))
def test_last_boxed_inverts_boxing(before: str, content: str, after: str):
    """Any balanced content comes back out of its box, whatever surrounds it."""
    assert last_boxed(f"{before}\\boxed{{{content}}}{after}") == content.strip()


def all_values(values: tuple[Fraction, ...]) -> set[Fraction]:
    """Every value from ordered operands, by brute force: the reference for the solver."""
    if len(values) == 1:
        return set(values)
    found = set()
    for i, j in itertools.permutations(range(len(values)), 2):
        rest = tuple(value for k, value in enumerate(values) if k not in (i, j))
        for operation in OPERATIONS.values():
            if operation is Fraction and values[j] == 0:
                continue
            result = operation(values[i], values[j])
            if result >= 0 and result.denominator == 1:
                found |= all_values((*rest, result))
    return found


def test_solutions_of_a_hand_worked_problem():
    """3, 5, 3 -> 24: (5+3)*3 is the only way, and swapping the equal threes is not another."""
    assert solutions((3, 5, 3), 24) == ["5+3=8\n8*3=24"]


def test_commuted_steps_are_one_solution():
    """1, 2, 3 -> 6: 1+2+3 in three orders, 1*2*3 in three, and nothing else that repeats them."""
    found = solutions((1, 2, 3), 6)
    assert {"2+1=3\n3+3=6", "3+1=4\n4+2=6", "3+2=5\n5+1=6"} <= set(found)
    assert {"2*1=2\n3*2=6", "3*1=3\n3*2=6", "3*2=6\n6*1=6"} <= set(found)
    assert not [text for text in found if re.search(r"^1[+*]", text, re.MULTILINE)]


def test_division_is_exact_and_never_by_zero():
    """7 and 2 have no quotient; 2-2=0 may be added, yet nothing is divided by it."""
    assert solutions((7, 2), 3) == []
    assert solutions((2, 2, 5), 5) == [
        "2-2=0\n5+0=5",
        "2-2=0\n5-0=5",
        "2/2=1\n5*1=5",
        "2/2=1\n5/1=5",
        "5*2=10\n10/2=5",
        "5+2=7\n7-2=5",
        "5-2=3\n3+2=5",
    ]


@given(st.lists(st.integers(1, 9), min_size=2, max_size=4).map(tuple), st.integers(0, 40))
def test_the_solver_agrees_with_brute_force(numbers, target):
    """A target has solutions exactly when brute force over ordered operands reaches it."""
    reached = target in all_values(tuple(map(Fraction, numbers)))
    found = solutions(numbers, target)
    assert bool(found) == reached
    assert all(replay(numbers, text) == [target] for text in found)
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("16+6=22\n22-1=23", "16+6=22\n22-1=21"),
        ("3-8=5\n6/2=4", "3-8=-5\n6/2=3"),
        ("7/2=3\n3*4=12", "7/2=?\n3*4=12"),
        ("5/0=5", "5/0=?"),
        ("no step", "no step"),
    ],
)
def test_a_check_has_the_steps_with_their_own_results(response, expected):
    """The operands are as in the response; what is no whole number is a question mark."""
    assert COUNTDOWN.check_text is not None
    assert COUNTDOWN.check_text(response) == expected
