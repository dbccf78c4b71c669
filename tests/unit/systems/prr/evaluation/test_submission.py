"""submission.json: two attempts per test input, completeness, and its score."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.arc import PuzzleInput
from pipeline_lib.problems.arc_grids import Challenge, OpenPair, Pair
from pipeline_lib.study.arc_score import score_submission
from pipeline_lib.systems.prr.data.augmentation import Augmentation, Version
from pipeline_lib.systems.prr.data.vocabulary import encode, grid_to_array
from pipeline_lib.systems.prr.evaluation.grid_voting import (
    GridVotes,
    VersionedInput,
    known_solutions,
    ranked_pass_at_k,
)
from pipeline_lib.systems.prr.evaluation.submission import (
    check_submission,
    submission_of_votes,
    write_submission,
)

PAIR = Pair(input=((1,),), output=((2,),))


def challenge(name: str, *outputs: int) -> Challenge:
    tests = tuple(OpenPair(input=((n,),), output=((c,),)) for n, c in enumerate(outputs))
    return Challenge(id=name, train=(PAIR,), test=tests)


def tally_of(votes: list[tuple[str, int, int]]) -> GridVotes:
    """Votes as puzzle, test input and colour of a grid of one cell."""
    tally = GridVotes()
    for puzzle, index, colour in votes:
        asked = VersionedInput(
            version=Version(puzzle=puzzle, augmentation=Augmentation()), index=index
        )
        tally.add(asked, encode(grid_to_array(((colour,),)), side=3), confidence=0.0)
    return tally


def test_the_two_top_ranked_grids_are_submitted(tmp_path):
    """Of 7 twice, 5 twice and 3 once: 5, then 7 (a tie, in the order of cells)."""
    tally = tally_of([("p", 0, colour) for colour in (3, 7, 5, 5, 7)])
    puzzles = {"p": challenge("p", 5)}
    write_submission(tmp_path / "submission.json", submission_of_votes(tally, puzzles), puzzles)
    written = json.loads((tmp_path / "submission.json").read_text("utf-8"))
    assert written == {"p": [{"attempt_1": [[5]], "attempt_2": [[7]]}]}


def test_few_answers():
    """A single candidate is repeated; without any the placeholder is used and listed."""
    puzzles = {"p": challenge("p", 5, 6)}
    submission = submission_of_votes(tally_of([("p", 0, 4)]), puzzles)
    assert submission.attempts == {
        "p": [
            {"attempt_1": [[4]], "attempt_2": [[4]]},
            {"attempt_1": [[0, 0], [0, 0]], "attempt_2": [[0, 0], [0, 0]]},
        ]
    }
    assert submission.unanswered == (PuzzleInput(puzzle_id="p", index=1),)


@given(
    st.lists(
        st.tuples(st.sampled_from(["p", "q"]), st.integers(0, 1), st.integers(1, 4)), max_size=20
    )
)
def test_pass_at_2_is_the_score_of_the_submission(votes):
    """For any votes, pass@2 equals the ARC Prize score of the submission."""
    puzzles = {"p": challenge("p", 1, 2), "q": challenge("q", 3, 4)}
    tally, solutions = tally_of(votes), known_solutions(puzzles)
    submission = submission_of_votes(tally, puzzles)
    score = score_submission(submission.attempts, solutions)
    assert ranked_pass_at_k(tally, solutions, ks=(2,))[2] == pytest.approx(score.pass_at_2)
    assert not score.missing
    assert score.num_not_grids == 0


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "not JSON"),
        ("[]", "a submission is an object of puzzles, not list"),
        ("{}", "1 of 1 puzzles are missing (first: 'p')"),
        ('{"q": []}', "1 puzzles of the submission have no solution (first: 'q')"),
        ('{"p": []}', "puzzle 'p': 0 entries for 1 test inputs"),
        ('{"p": [{"attempt_1": [[1]]}]}', "expected attempt_1 and attempt_2"),
        ('{"p": [{"attempt_1": [[1]], "attempt_2": []}]}', "1 attempts are no grids"),
    ],
)
def test_invalid_submissions_are_refused(tmp_path, content, complaint):
    """A one-line error names the file once and the violation."""
    path = tmp_path / "submission.json"
    path.write_text(content, "utf-8")
    with pytest.raises(BadInputError) as error:
        check_submission(path, {"p": challenge("p", 1)})
    assert complaint in str(error.value)
    assert str(error.value).count(str(path)) == 1
