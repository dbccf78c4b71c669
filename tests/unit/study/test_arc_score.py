"""The score of ARC Prize: two attempts, whole puzzles, exact equality."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.arc import ArcGold
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.records import FinishReason, Group, JudgedPath, Path, Problem
from pipeline_lib.study.arc_score import score_submission, solutions_of, submission_of
from pipeline_lib.verdicts import Status, Verdict
from pipeline_lib.verify.arc import judge
from tests.unit.study.judged_groups import PROVENANCE
from tests.unit.synthetic_grids import grids

A, B, C = ((1, 2),), ((3,), (4,)), ((5,),)
SOLUTIONS = {"p": [A], "q": [A, B], "r": [A, B, C]}
FAILED = Verdict(status=Status.VERIFIER_ERROR, strict=None, lenient=None)


def entry(first: object, second: object = ()) -> dict:
    return {"attempt_1": first, "attempt_2": second}


def solved_by_first() -> dict:
    return {name: [entry(grid) for grid in outputs] for name, outputs in SOLUTIONS.items()}


def problem(puzzle_id: str, index: int, output=A) -> Problem:
    return Problem(
        id=f"{puzzle_id}/{index}", question="?", gold=ArcGold(output=output), source="arc"
    )


def group(asked: Problem, *texts: str | None) -> Group:
    """Paths in the order of their texts, each judged; None stands for one that was not scored."""
    members = [
        JudgedPath(
            path=Path(
                problem_id=asked.id,
                index=index,
                text=text or "",
                finish_reason=FinishReason.STOP,
                prompt_tokens=1,
                completion_tokens=1,
                logprob=None,
                provenance=PROVENANCE,
            ),
            verdict=FAILED if text is None else judge(asked.gold, text),
        )
        for index, text in enumerate(texts)
    ]
    return Group(problem=asked, members=members)


def test_a_puzzle_is_worth_the_share_of_its_test_inputs():
    """p 1/1, q 1/2, r 1/3: pass@2 (1 + 1/2 + 1/3) / 3 = 11/18; 1 of 3 whole; 3 of 6 test inputs."""
    submission = {
        "p": [entry(C, A)],
        "q": [entry(A, C), entry(C, C)],
        "r": [entry(C, B), entry(C, B), entry(A, A)],
    }
    score = score_submission(submission, SOLUTIONS)
    assert score.pass_at_2 == pytest.approx(11 / 18)
    assert score.all_solved == pytest.approx(1 / 3)
    assert score.test_inputs_solved == pytest.approx(3 / 6)
    assert [puzzle.solved for puzzle in score.puzzles] == [
        (True,),
        (True, False),
        (False, True, False),
    ]
    assert (score.missing, score.num_not_grids) == ((), 0)


def test_the_format_is_that_of_the_competition():
    """A submission as it stands in a file is scored."""
    text = '{"x": [{"attempt_1": [[0, 0], [0, 0]], "attempt_2": [[1, 2]]}]}'
    assert score_submission(json.loads(text), {"x": [A]}).pass_at_2 == 1


def test_a_missing_puzzle_is_unsolved_and_named():
    """Two of three puzzles, both solved, are 2/3."""
    submission = solved_by_first()
    del submission["q"]
    score = score_submission(submission, SOLUTIONS)
    assert score.pass_at_2 == pytest.approx(2 / 3)
    assert score.missing == ("q",)


@pytest.mark.parametrize(
    "attempt", [None, [], [[]], [[1, 2], [3]], [[1, 10]], [["1", "2"]], [[1.0, 2.0]], "[[1, 2]]", 7]
)
def test_what_is_no_grid_is_wrong(attempt: object):
    """It is no error, it solves nothing, and it is counted; the other attempt still counts."""
    assert score_submission({"x": [entry(attempt, A)]}, {"x": [A]}).pass_at_2 == 1
    score = score_submission({"x": [entry(attempt, attempt)]}, {"x": [A]})
    assert (score.pass_at_2, score.num_not_grids) == (0, 2)


@pytest.mark.parametrize(
    ("submission", "complaint"),
    [
        ([], "GRID}]}: Input should be a valid dictionary"),
        ({"x": []}, "1 puzzles of the submission have no solution (first: 'x')"),
        ({"q": [entry(A)]}, "puzzle 'q': 1 entries for 2 test inputs"),
        ({"p": [entry(A), entry(B)]}, "puzzle 'p': 2 entries for 1 test inputs"),
        ({"p": None}, "p: Input should be a valid list"),
        ({"p": [{"attempt_1": A}]}, "p.0.attempt_2: Field required"),
        ({"p": [entry(A) | {"attempt_3": A}]}, "p.0.attempt_3: Extra inputs"),
    ],
)
def test_a_submission_for_something_else_is_refused(submission: object, complaint: str):
    """The error says which puzzle, what is there and what is expected."""
    with pytest.raises(BadInputError) as error:
        score_submission(submission, SOLUTIONS)
    assert complaint in str(error.value)


def test_no_solutions_are_refused():
    """There is no score over no puzzles."""
    with pytest.raises(BadInputError, match="no solutions to score against"):
        score_submission({}, {})


@given(st.lists(grids(max_side=3), min_size=1, max_size=4), st.data())
def test_either_attempt_solves(outputs, data):
    """A test input is solved exactly if one of its two attempts is its output."""
    tried = [data.draw(st.lists(st.sampled_from(outputs), min_size=2, max_size=2)) for _ in outputs]
    score = score_submission({"x": [entry(*both) for both in tried]}, {"x": outputs})
    solved = [output in both for output, both in zip(outputs, tried, strict=True)]
    assert score.pass_at_2 == pytest.approx(sum(solved) / len(outputs))
    assert score.all_solved == all(solved)


def test_solutions_come_from_problems():
    """Problems in any order give the outputs of each puzzle in the order of its test inputs."""
    problems = [problem("q", 1, B), problem("p", 0, A), problem("q", 0, A)]
    assert solutions_of(problems) == {"q": [A, B], "p": [A]}


def test_the_first_two_paths_are_the_attempts():
    """Paths 0 and 1 are handed in, in order; what comes after them is not looked at."""
    asked = problem("p", 0, A)
    made = submission_of([group(asked, "```\n3\n4\n```", "[[1, 2]]", "```\n5\n```")])
    assert made == {"p": [{"attempt_1": [[3], [4]], "attempt_2": [[1, 2]]}]}
    assert json.loads(json.dumps(made)) == made
    assert score_submission(made, solutions_of([asked])).pass_at_2 == 1


def test_a_path_without_a_grid_hands_in_nothing():
    """No answer, and rows that make no grid, are empty lists: they solve nothing."""
    asked = problem("p", 0, A)
    made = submission_of([group(asked, "no idea", "```\n1 2\n3\n```")])
    assert made == {"p": [{"attempt_1": [], "attempt_2": []}]}
    score = score_submission(made, solutions_of([asked]))
    assert (score.pass_at_2, score.num_not_grids) == (0, 2)


def test_our_failures_take_no_attempt():
    """A path that our side failed to judge is passed over; with fewer than two left there is none."""
    asked = problem("p", 0, A)
    made = submission_of([group(asked, None, "[[1]]", None, "[[1, 2]]")])
    assert made == {"p": [{"attempt_1": [[1]], "attempt_2": [[1, 2]]}]}
    with pytest.raises(BadInputError, match="'p/0' has 1 scored paths; a submission needs 2"):
        submission_of([group(asked, None, "[[1]]")])


def test_a_puzzle_is_taken_whole():
    """Test input 1 without test input 0 is no puzzle, for solutions and for submissions."""
    alone = problem("q", 1, B)
    with pytest.raises(BadInputError, match="puzzle 'q' lacks test input 0"):
        solutions_of([alone])
    with pytest.raises(BadInputError, match="puzzle 'q' lacks test input 0"):
        submission_of([group(alone, "[[3], [4]]", "[[3], [4]]")])


def test_other_kinds_have_no_puzzles():
    """A Countdown problem among the solutions is refused by its id."""
    other = Problem(
        id="c/0", question="?", gold=CountdownGold(numbers=(1,), target=1), source="countdown"
    )
    with pytest.raises(BadInputError, match="problem 'c/0' is one of countdown, not of arc"):
        solutions_of([other])
