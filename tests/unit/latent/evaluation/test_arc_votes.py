"""Who votes: the surest answer to each version, or all of them. BranchAnswers are made by hand."""

import json

import numpy as np
import pytest

from pipeline_lib.latent.data.arc_builder import ArcOptions, build_arc
from pipeline_lib.latent.data.dataset_files import read_set
from pipeline_lib.latent.evaluation.arc_votes import ArcVotes
from pipeline_lib.latent.evaluation.branch_answers import BranchAnswers
from pipeline_lib.latent.evaluation.evaluate import PredictedBatch
from tests.unit.latent.sample_puzzles import small_subsets, write_repository

SIDE = 5
BLACK = 2
ONE, FOUR = [[0]], [[0, 0], [0, 0]]
"""Black squares: every augmentation leaves them as they are."""


def canvas(grid: list[list[int]]) -> np.ndarray:
    """A black grid as the tokens of a model."""
    tokens = np.zeros((SIDE, SIDE), dtype=np.uint8)
    tokens[: len(grid), : len(grid)] = BLACK
    return tokens.ravel()


@pytest.mark.parametrize(("voters", "first"), [("picked", ONE), ("all", FOUR)])
def test_a_submission_is_of_those_who_vote(voters, first, tmp_path):
    """Of three branches the last and surest says one square; the two others together say four."""
    build_arc(
        small_subsets(write_repository(tmp_path / "source")),
        ArcOptions(test_set="evaluation", num_aug=5, seed=7, max_side=SIDE),
        tmp_path / "data",
    )
    data = read_set(tmp_path / "data", "test")
    rows = len(data.inputs_NL)
    tokens_BKL = np.tile(np.stack([canvas(FOUR), canvas(FOUR), canvas(ONE)]), (rows, 1, 1))
    confidences_BK = np.tile(np.array([-0.5, -0.6, -0.1], dtype=np.float32), (rows, 1))
    votes = ArcVotes(tmp_path / "data", data)
    votes.add(
        PredictedBatch(
            start=0,
            stop=rows,
            answers=BranchAnswers(
                tokens_BKL=tokens_BKL,
                kept_BKL=tokens_BKL,
                scores_BK=np.zeros_like(confidences_BK),
                confidences_BK=confidences_BK,
            ),
            counts=None,
            core_passes=3,
        )
    )
    assert votes.submit(tmp_path / "submission.json", voters=voters) == 0
    submission = json.loads((tmp_path / "submission.json").read_text("utf-8"))
    attempts = [attempt["attempt_1"] for outputs in submission.values() for attempt in outputs]
    assert attempts == [first] * 2
