"""Votes over versions of a puzzle: mapped back, counted, ranked, submitted, scored."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.arc import PuzzleInput
from pipeline_lib.problems.arc_grids import Challenge, OpenPair, Pair
from pipeline_lib.study.arc_score import arc_prize_score
from pipeline_lib.systems.prr.data.dataset_files import PuzzleSet
from pipeline_lib.systems.prr.data.grids import Augmentation, encode, grid_to_array
from pipeline_lib.systems.prr.evaluation.arc_votes import (
    GridVotes,
    known_solutions,
    ranked_pass_at_k,
    resolve_inputs,
    restore_grid,
    solved_inputs,
    submission_of_votes,
)
from tests.unit.synthetic_grids import grids

SIDE = 6
TURNED = Augmentation(dihedral=1, colours=(0, 2, 1, 3, 4, 5, 6, 7, 8, 9))


def asked(puzzle="p", index=0):
    return PuzzleInput(puzzle_id=puzzle, index=index)


def tokens_of(grid, augmentation=None):
    return encode((augmentation or Augmentation()).apply(grid_to_array(grid)), side=SIDE)


def challenge(*tests, name="p"):
    pair = Pair(input=((1,),), output=((2,),))
    return Challenge(
        id=name, train=(pair,), test=tuple(OpenPair(input=i, output=o) for i, o in tests)
    )


def one_cell(name, *colours):
    """A puzzle whose outputs are single cells."""
    return challenge(*((((n,),), ((c,),)) for n, c in enumerate(colours)), name=name)


def tally_of(*votes):
    """Votes as test input, colour of a grid of one cell, and confidence."""
    tally = GridVotes()
    for one, colour, confidence in votes:
        tally.add(one, ((colour,),), confidence=confidence)
    return tally


def test_votes_before_confidence():
    """Two votes of low confidence beat a confident one; ties are ordered by mean confidence."""
    tally = tally_of(*((asked(), *vote) for vote in ((1, 0.9), (2, 0.1), (2, 0.3), (3, 0.95))))
    assert tally.rank(asked()) == [((2,),), ((3,),), ((1,),)]


@given(
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from([0.25, 0.5])), max_size=8),
    st.randoms(use_true_random=False),
)
def test_the_order_of_votes_changes_nothing(votes, rng):
    """The ranking is independent of the order of votes, ties included."""
    rankings = []
    for _ in range(2):
        rankings.append(tally_of(*((asked(), *vote) for vote in votes)).rank(asked()))
        rng.shuffle(votes)
    assert rankings[0] == rankings[1]


@given(
    grids(max_side=SIDE), st.integers(0, 7), st.permutations(range(1, 10)).map(lambda p: (0, *p))
)
def test_versions_show_one_grid(grid, dihedral, colours):
    """An equivalent answer to a version is mapped back to the grid."""
    augmentation = Augmentation(dihedral=dihedral, colours=colours)
    assert restore_grid(tokens_of(grid, augmentation), augmentation) == grid


def test_tokens_without_a_grid():
    """Tokens that begin with padding hold no grid."""
    assert restore_grid(np.zeros(SIDE * SIDE, dtype=np.uint8), TURNED) is None


def set_of(inputs, identifiers, indices):
    return PuzzleSet.of(
        inputs_NL=np.stack(inputs),
        labels_NL=np.stack(inputs),
        puzzle_identifiers=identifiers,
        puzzle_indices=indices,
        group_indices=[0, len(identifiers)],
        vocab_size=12,
    )


def test_examples_resolve_to_their_test_inputs():
    """Resolved by the input grid, in any order: version 2 starts with input 1."""
    puzzle = challenge((((1, 2, 3),), ((4,),)), (((5, 6),), ((7,),)))
    first, second = (test.input for test in puzzle.test)
    inputs = [tokens_of(first), tokens_of(second, TURNED), tokens_of(first, TURNED)]
    names = ["<blank>", "p", TURNED.name("p")]
    assert resolve_inputs(set_of(inputs, [1, 2], [0, 1, 3]), names, {"p": puzzle}) == [
        (asked(), Augmentation()),
        (asked(index=1), TURNED),
        (asked(), TURNED),
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
    data = set_of([tokens_of(((9,),))], [1], [0, 1])
    with pytest.raises(BadInputError, match=complaint):
        resolve_inputs(data, names, {name: challenge((((1,),), ((2,),)))})


def test_pass_at_k_by_hand():
    """p has two test inputs: solved at rank 0 and 2. q has one without a vote.

    pass@1 = (1/2 + 0) / 2 = 1/4, pass@2 the same, pass@5 = (2/2 + 0) / 2 = 1/2.
    """
    later = asked(index=1)
    tally = tally_of((asked(), 1, 1.0), (later, 2, 0.9), (later, 3, 0.8), (later, 4, 0.7))
    puzzles = {"p": one_cell("p", 1, 4), "q": one_cell("q", 1)}
    scores = ranked_pass_at_k(tally, known_solutions(puzzles))
    assert scores == {1: 0.25, 2: 0.25, 5: 0.5, 10: 0.5, 100: 0.5, 1000: 0.5}


def test_secret_outputs_are_not_scored():
    """A puzzle without its outputs has no solution."""
    assert known_solutions({"p": challenge((((0,),), ((1,),)), (((0, 0),), None))}) == {}


def test_two_grids_for_each_input_are_submitted():
    """Of 7 twice, 5 twice and 3 once: 5, then 7 (a tie, in the order of cells).

    A single candidate is repeated; without any the placeholder is used and listed.
    """
    votes = [(asked(), colour, 0.0) for colour in (3, 7, 5, 5, 7)]
    tally = tally_of(*votes, (asked(index=1), 4, 0.0))
    submission, unanswered = submission_of_votes(tally, {"p": one_cell("p", 5, 6, 7)})
    assert submission == {
        "p": [
            {"attempt_1": [[5]], "attempt_2": [[7]]},
            {"attempt_1": [[4]], "attempt_2": [[4]]},
            {"attempt_1": [[0, 0], [0, 0]], "attempt_2": [[0, 0], [0, 0]]},
        ]
    }
    assert unanswered == [asked(index=2)]


@given(
    st.lists(
        st.tuples(st.sampled_from(["p", "q"]), st.integers(0, 1), st.integers(1, 4)), max_size=20
    )
)
def test_pass_at_2_is_the_score_of_the_submission(votes):
    """For any votes, pass@2 equals the ARC Prize score of the submission."""
    puzzles = {"p": one_cell("p", 1, 2), "q": one_cell("q", 3, 4)}
    tally = tally_of(*((asked(name, index), colour, 0.0) for name, index, colour in votes))
    solutions = known_solutions(puzzles)
    submission, _ = submission_of_votes(tally, puzzles)
    score = arc_prize_score(solved_inputs(submission, solutions))
    assert ranked_pass_at_k(tally, solutions, ks=(2,))[2] == pytest.approx(score)
