"""The score of ARC Prize: two attempts, shares of a puzzle's test inputs."""

import dataclasses

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.study.arc_score import arc_prize_score, solved_by_first_paths
from tests.unit.study.judged_groups import judged_group


def test_a_puzzle_is_worth_the_share_of_its_test_inputs():
    """1/1, 1/2 and 1/3 of the inputs: (1 + 1/2 + 1/3) / 3 = 11/18."""
    solved = {"p": [True], "q": [True, False], "r": [False, True, False]}
    assert arc_prize_score(solved) == pytest.approx(11 / 18)


def test_the_first_two_scored_paths_are_the_attempts():
    """In the order of their indices; a path that our side failed to judge is passed over."""
    letters = {"p/0": "wc", "q/1": "xwxf", "q/0": "wwc"}
    groups = [judged_group(name, paths) for name, paths in letters.items()]
    turned = [dataclasses.replace(one, members=one.members[::-1]) for one in groups]
    for found in (groups, turned):
        assert solved_by_first_paths(found) == {"p": [True], "q": [True, False]}


@pytest.mark.parametrize(
    ("name", "letters", "complaint"),
    [
        ("p/0", "xc", "'p/0' has 1 scored paths; a submission needs 2"),
        ("p/1", "cc", "puzzle 'p' lacks test input 0"),
        ("p", "cc", "'p' is no id of an ARC problem"),
    ],
)
def test_what_cannot_be_scored_is_named(name, letters, complaint):
    """Too few paths, a puzzle without all its inputs, a problem of another kind."""
    with pytest.raises(BadInputError, match=complaint):
        solved_by_first_paths([judged_group(name, letters)])
