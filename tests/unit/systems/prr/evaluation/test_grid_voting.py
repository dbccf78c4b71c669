"""Votes over versions of a puzzle: mapped back, counted, ranked, scored."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.arc import PuzzleInput
from pipeline_lib.problems.arc_grids import Challenge, OpenPair, Pair
from pipeline_lib.systems.prr.data.augmentation import Augmentation, Version
from pipeline_lib.systems.prr.data.dataset_files import PuzzleSet
from pipeline_lib.systems.prr.data.vocabulary import encode, grid_to_array
from pipeline_lib.systems.prr.evaluation.grid_voting import (
    GridVotes,
    RankedGrid,
    VersionedInput,
    known_solutions,
    ranked_pass_at_k,
    resolve_inputs,
)
from tests.unit.synthetic_grids import grids

SIDE = 6
QUESTION = PuzzleInput(puzzle_id="p", index=0)
TURNED = Augmentation(dihedral=1, colours=(0, 2, 1, 3, 4, 5, 6, 7, 8, 9))


def asked(augmentation=None, *, puzzle="p", index=0):
    version = Version(puzzle=puzzle, augmentation=augmentation or Augmentation())
    return VersionedInput(version=version, index=index)


def tokens_of(grid, augmentation=None):
    return encode((augmentation or Augmentation()).apply(grid_to_array(grid)), side=SIDE)


def challenge(*tests, name="p"):
    pair = Pair(input=((1,),), output=((2,),))
    return Challenge(
        id=name, train=(pair,), test=tuple(OpenPair(input=i, output=o) for i, o in tests)
    )


def test_votes_before_confidence():
    """Two votes of low confidence beat a confident one; ties are ordered by mean confidence."""
    tally = GridVotes()
    for grid, confidence in (
        (((1,),), 0.9),
        (((2,),), 0.1),
        (((2,),), 0.3),
        (((3,),), 0.95),
    ):
        tally.add(asked(), tokens_of(grid), confidence=confidence)
    assert tally.rank(QUESTION) == [
        RankedGrid(grid=((2,),), votes=2, mean_confidence=pytest.approx(0.2)),
        RankedGrid(grid=((3,),), votes=1, mean_confidence=0.95),
        RankedGrid(grid=((1,),), votes=1, mean_confidence=0.9),
    ]


@given(
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from([0.25, 0.5])), max_size=8),
    st.randoms(use_true_random=False),
)
def test_the_order_of_votes_changes_nothing(votes, rng):
    """The ranking is independent of the order of votes, ties included."""
    rankings = []
    for _ in range(2):
        tally = GridVotes()
        for colour, confidence in votes:
            tally.add(asked(), tokens_of(((colour,),)), confidence=confidence)
        rankings.append(tally.rank(QUESTION))
        rng.shuffle(votes)
    assert rankings[0] == rankings[1]


@given(
    grids(max_side=SIDE), st.integers(0, 7), st.permutations(range(1, 10)).map(lambda p: (0, *p))
)
def test_versions_vote_together(grid, dihedral, colours):
    """Equivalent answers to the original and to a version are two votes for one grid."""
    augmentation = Augmentation(dihedral=dihedral, colours=colours)
    tally = GridVotes()
    tally.add(asked(), tokens_of(grid), confidence=1.0)
    tally.add(asked(augmentation), tokens_of(grid, augmentation), confidence=0.0)
    assert tally.rank(QUESTION) == [RankedGrid(grid=grid, votes=2, mean_confidence=0.5)]


def test_an_answer_without_a_grid_is_not_a_vote():
    """Tokens that begin with padding hold no grid."""
    tally = GridVotes()
    tally.add(asked(), np.zeros(SIDE * SIDE, dtype=np.uint8), confidence=1.0)
    assert tally.rank(QUESTION) == []


def test_examples_resolve_to_their_test_inputs():
    """Resolved by the input grid, in any order: version 2 starts with input 1."""
    puzzle = challenge((((1, 2, 3),), ((4,),)), (((5, 6),), ((7,),)))
    (first, _), (second, _) = ((test.input, test.output) for test in puzzle.test)
    inputs = [tokens_of(first), tokens_of(second, TURNED), tokens_of(first, TURNED)]
    data = PuzzleSet.of(
        inputs_NL=np.stack(inputs),
        labels_NL=np.stack(inputs),
        puzzle_identifiers=[1, 2],
        puzzle_indices=[0, 1, 3],
        group_indices=[0, 2],
        vocab_size=12,
    )
    names = ["<blank>", "p", TURNED.name("p")]
    assert resolve_inputs(data, names, {"p": puzzle}) == [
        asked(),
        asked(TURNED, index=1),
        asked(TURNED, index=0),
    ]


@pytest.mark.parametrize(
    ("names", "name", "complaint"),
    [
        (["<blank>", "p"], "p", "is not a version of a test input of 'p'"),
        (["<blank>", "q"], "p", "is not a version of a test input of 'q'"),
        (["<blank>"], "p", "puzzle identifier 1 is not in identifiers.json"),
        (["<blank>", "p|||x"], "p", "is not a version identifier"),
    ],
)
def test_inconsistent_files(names, name, complaint):
    """Another grid, another puzzle, too few names, an invalid version name."""
    data = PuzzleSet.of(
        inputs_NL=tokens_of(((9,),))[None],
        labels_NL=tokens_of(((9,),))[None],
        puzzle_identifiers=[1],
        puzzle_indices=[0, 1],
        group_indices=[0, 1],
        vocab_size=12,
    )
    with pytest.raises(BadInputError, match=complaint):
        resolve_inputs(data, names, {name: challenge((((1,),), ((2,),)))})


def test_pass_at_k_by_hand():
    """p has two test inputs: solved at rank 0 and 2. q has one without a vote.

    pass@1 = (1/2 + 0) / 2 = 1/4, pass@2 the same, pass@5 = (2/2 + 0) / 2 = 1/2.
    """
    tally = GridVotes()
    tally.add(asked(), tokens_of(((1,),)), confidence=1.0)
    for colour, confidence in ((2, 0.9), (3, 0.8), (4, 0.7)):
        tally.add(asked(index=1), tokens_of(((colour,),)), confidence=confidence)
    puzzles = {
        "p": challenge((((0,),), ((1,),)), (((0, 0),), ((4,),))),
        "q": challenge((((0,),), ((1,),)), name="q"),
    }
    scores = ranked_pass_at_k(tally, known_solutions(puzzles))
    assert scores == {1: 0.25, 2: 0.25, 5: 0.5, 10: 0.5, 100: 0.5, 1000: 0.5}


def test_secret_outputs_are_not_scored():
    """A puzzle without its outputs has no solution, and without any solution there is no score."""
    puzzles = {"p": challenge((((0,),), ((1,),)), (((0, 0),), None))}
    assert known_solutions(puzzles) == {}
    with pytest.raises(BadInputError, match="no test outputs are known"):
        ranked_pass_at_k(GridVotes(), {})
