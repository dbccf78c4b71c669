"""Votes over the versions of a puzzle: led back, counted, ranked, scored."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.arc import PuzzleInput
from pipeline_lib.latent.augmentation import Augmentation, Version
from pipeline_lib.latent.dataset_files import PuzzleSet
from pipeline_lib.latent.vocabulary import colours_of, encode
from pipeline_lib.latent.voting import (
    Asked,
    Candidate,
    Tally,
    asked_by,
    pass_at,
    solutions_of_puzzles,
)
from pipeline_lib.problems.arc_grids import Challenge, OpenPair, Pair
from tests.unit.synthetic_grids import grids

SIDE = 6
QUESTION = PuzzleInput(puzzle_id="p", index=0)
TURNED = Augmentation(dihedral=1, colours=(0, 2, 1, 3, 4, 5, 6, 7, 8, 9))


def asked(augmentation=None, *, puzzle="p", index=0):
    version = Version(puzzle=puzzle, augmentation=augmentation or Augmentation())
    return Asked(version=version, index=index)


def tokens_of(grid, augmentation=None):
    return encode((augmentation or Augmentation()).apply(colours_of(grid)), side=SIDE)


def challenge(*tests, name="p"):
    pair = Pair(input=((1,),), output=((2,),))
    return Challenge(
        id=name, train=(pair,), test=tuple(OpenPair(input=i, output=o) for i, o in tests)
    )


def test_votes_before_confidence():
    """Two timid votes beat a confident one; level ones are ordered by mean confidence."""
    tally = Tally()
    for grid, confidence in (
        (((1,),), 0.9),
        (((2,),), 0.1),
        (((2,),), 0.3),
        (((3,),), 0.95),
    ):
        tally.add(asked(), tokens_of(grid), confidence=confidence)
    assert tally.ranked(QUESTION) == [
        Candidate(grid=((2,),), votes=2, mean_confidence=pytest.approx(0.2)),
        Candidate(grid=((3,),), votes=1, mean_confidence=0.95),
        Candidate(grid=((1,),), votes=1, mean_confidence=0.9),
    ]


@given(
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from([0.25, 0.5])), max_size=8),
    st.randoms(use_true_random=False),
)
def test_the_order_of_votes_changes_nothing(votes, rng):
    """However the votes come in, the ranking is the same, ties included."""
    rankings = []
    for _ in range(2):
        tally = Tally()
        for colour, confidence in votes:
            tally.add(asked(), tokens_of(((colour,),)), confidence=confidence)
        rankings.append(tally.ranked(QUESTION))
        rng.shuffle(votes)
    assert rankings[0] == rankings[1]


@given(
    grids(max_side=SIDE), st.integers(0, 7), st.permutations(range(1, 10)).map(lambda p: (0, *p))
)
def test_versions_vote_together(grid, dihedral, colours):
    """The same answer to the original and to any version of it is two votes for one grid."""
    augmentation = Augmentation(dihedral=dihedral, colours=colours)
    tally = Tally()
    tally.add(asked(), tokens_of(grid), confidence=1.0)
    tally.add(asked(augmentation), tokens_of(grid, augmentation), confidence=0.0)
    assert tally.ranked(QUESTION) == [Candidate(grid=grid, votes=2, mean_confidence=0.5)]


def test_an_answer_without_a_grid_is_no_vote():
    """Tokens that begin with padding hold no grid."""
    tally = Tally()
    tally.add(asked(), np.zeros(SIDE * SIDE, dtype=np.uint8), confidence=1.0)
    assert tally.ranked(QUESTION) == []


def test_examples_know_what_they_ask():
    """Found by the input grid, whatever the order of the examples: version 2 shows input 1 first."""
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
    assert asked_by(data, names, {"p": puzzle}) == [
        asked(),
        asked(TURNED, index=1),
        asked(TURNED, index=0),
    ]


@pytest.mark.parametrize(
    ("names", "name", "complaint"),
    [
        (["<blank>", "p"], "p", "is no version of a test input of 'p'"),
        (["<blank>", "q"], "p", "is no version of a test input of 'q'"),
        (["<blank>"], "p", "puzzle identifier 1 is none of identifiers.json"),
        (["<blank>", "p|||x"], "p", "is no version of a puzzle"),
    ],
)
def test_files_that_do_not_belong_together(names, name, complaint):
    """Another grid, another puzzle, too few names, a name of no version."""
    data = PuzzleSet.of(
        inputs_NL=tokens_of(((9,),))[None],
        labels_NL=tokens_of(((9,),))[None],
        puzzle_identifiers=[1],
        puzzle_indices=[0, 1],
        group_indices=[0, 1],
        vocab_size=12,
    )
    with pytest.raises(BadInputError, match=complaint):
        asked_by(data, names, {name: challenge((((1,),), ((2,),)))})


def test_pass_at_k_by_hand():
    """p has two test inputs: solved at rank 0 and 2. q has one that nobody answered.

    pass@1 = (1/2 + 0) / 2 = 1/4, pass@2 the same, pass@5 = (2/2 + 0) / 2 = 1/2.
    """
    tally = Tally()
    tally.add(asked(), tokens_of(((1,),)), confidence=1.0)
    for colour, confidence in ((2, 0.9), (3, 0.8), (4, 0.7)):
        tally.add(asked(index=1), tokens_of(((colour,),)), confidence=confidence)
    puzzles = {
        "p": challenge((((0,),), ((1,),)), (((0, 0),), ((4,),))),
        "q": challenge((((0,),), ((1,),)), name="q"),
    }
    scores = pass_at(tally, solutions_of_puzzles(puzzles))
    assert scores == {1: 0.25, 2: 0.25, 5: 0.5, 10: 0.5, 100: 0.5, 1000: 0.5}


def test_secret_outputs_are_not_scored():
    """A puzzle without its outputs has no solution, and without any solution there is no score."""
    puzzles = {"p": challenge((((0,),), ((1,),)), (((0, 0),), None))}
    assert solutions_of_puzzles(puzzles) == {}
    with pytest.raises(BadInputError, match="no test outputs are known"):
        pass_at(Tally(), {})
