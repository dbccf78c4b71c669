"""Worked problems are divided by seed and id."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.problems.worked import divide_worked, first_worked
from pipeline_lib.records import Problem


def problem(name: int, *, worked: bool = True) -> Problem:
    gold = MathGold(answer="1")
    return Problem(
        id=f"p{name}", question="?", gold=gold, source="t", solution="1" if worked else None
    )


@given(
    count=st.integers(0, 60),
    fraction=st.sampled_from([0.0, 0.1, 0.25, 0.5]),
    seed=st.integers(0, 2**32),
)
def test_the_parts_are_disjoint_and_together_all(count, fraction, seed):
    """Each worked problem is in one part; the size of the second is rounded."""
    problems = [problem(number) for number in range(count)]
    parts = divide_worked(problems, validation_fraction=fraction, seed=seed)
    assert sorted([*parts.train, *parts.validation], key=lambda p: int(p.id[1:])) == problems
    assert len(parts.validation) == round(fraction * count)


def test_examples_have_a_solution():
    """The first two with one; five are too many, and the message names the param."""
    problems = [problem(number, worked=number % 2 == 1) for number in range(6)]
    assert [one.id for one in first_worked(problems, 2)] == ["p1", "p3"]
    with pytest.raises(BadInputError, match=r"sample\.shots=5: 3 problems"):
        first_worked(problems, 5)


def test_problems_without_a_solution_are_in_neither_part():
    """Of four problems two are worked."""
    problems = [problem(number, worked=number % 2 == 0) for number in range(4)]
    parts = divide_worked(problems, validation_fraction=0.5, seed=1)
    assert {p.id for p in (*parts.train, *parts.validation)} == {"p0", "p2"}


def test_the_order_of_the_problems_does_not_matter():
    """The parts do not depend on the input order; their order is the order of the input."""
    problems = [problem(number) for number in range(20)]
    parts = divide_worked(problems, validation_fraction=0.2, seed=3)
    again = divide_worked(problems[::-1], validation_fraction=0.2, seed=3)
    assert parts.validation == again.validation[::-1]
