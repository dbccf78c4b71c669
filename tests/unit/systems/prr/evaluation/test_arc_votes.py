"""Votes of the most confident branch per version or of all branches, on hand-made answers."""

import json
import pathlib

import numpy as np
import pytest

from pipeline_lib.systems.prr.data.arc_builder import ArcOptions, build_arc
from pipeline_lib.systems.prr.data.dataset_files import read_set
from pipeline_lib.systems.prr.data.vocabulary import encode, grid_to_array
from pipeline_lib.systems.prr.evaluation.arc_votes import ArcVotes
from pipeline_lib.systems.prr.evaluation.branch_answers import BranchAnswers
from pipeline_lib.systems.prr.evaluation.evaluate import PredictedBatch
from tests.unit.systems.prr.sample_puzzles import small_subsets, write_repository

SIDE = 5
BLACK = 2
ONE, FOUR = [[0]], [[0, 0], [0, 0]]
"""Black squares: every augmentation leaves them as they are."""


def canvas(grid: list[list[int]]) -> np.ndarray:
    """A black grid as the tokens of a model."""
    tokens = np.zeros((SIDE, SIDE), dtype=np.uint8)
    tokens[: len(grid), : len(grid)] = BLACK
    return tokens.ravel()


def votes_of(root: pathlib.Path, *, num_aug: int, answers_NKL: list | np.ndarray) -> ArcVotes:
    """Votes on a small data folder; the last branch is the most confident."""
    subsets = small_subsets(write_repository(root / "source"))
    options = ArcOptions(test_set="evaluation", num_aug=num_aug, seed=7, max_side=SIDE)
    build_arc(subsets, options, root / "data")
    data = read_set(root / "data", "test")
    tokens_BKL = np.broadcast_to(answers_NKL, (len(data.inputs_NL), 3, SIDE * SIDE))
    confidences_BK = np.tile(np.array([-0.5, -0.6, -0.1], dtype=np.float32), (len(tokens_BKL), 1))
    votes = ArcVotes(root / "data", data)
    votes.add(
        PredictedBatch(
            start=0,
            stop=len(tokens_BKL),
            answers=BranchAnswers(
                tokens_BKL=tokens_BKL,
                kept_BKL=tokens_BKL,
                scores_BK=np.zeros_like(confidences_BK),
                confidences_BK=confidences_BK,
            ),
            judged=None,
            core_passes=3,
        )
    )
    return votes


@pytest.mark.parametrize(("voters", "first"), [("picked", ONE), ("all", FOUR)])
def test_voters_decide_the_submission(voters, first, tmp_path):
    """Of three branches the most confident gives one cell; the other two agree on four."""
    answers_KL = np.stack([canvas(FOUR), canvas(FOUR), canvas(ONE)])
    votes = votes_of(tmp_path, num_aug=5, answers_NKL=answers_KL)
    submitted = votes.submit(tmp_path / "submission.json", voters=voters)
    assert submitted["unanswered test inputs"] == 0
    submission = json.loads((tmp_path / "submission.json").read_text("utf-8"))
    attempts = [attempt["attempt_1"] for outputs in submission.values() for attempt in outputs]
    assert attempts == [first] * 2


def test_the_submission_is_scored_as_by_arc_prize(tmp_path):
    """One of the two test inputs is solved by the second attempt: half of the inputs, no puzzle."""
    solved_L = encode(grid_to_array(((3, 3),)), side=SIDE)
    wrong_L = canvas(FOUR)
    answers_NKL = [[wrong_L] * 3, [wrong_L, wrong_L, solved_L]]
    votes = votes_of(tmp_path, num_aug=0, answers_NKL=answers_NKL)
    submitted = votes.submit(tmp_path / "submission.json", voters="all")
    assert submitted["submission"] == {
        "ARC Prize score": 0.5,
        "test inputs solved": 0.5,
        "puzzles solved": 0.0,
    }
    assert votes.metrics()["all"]["pass@2"] == 0.5
