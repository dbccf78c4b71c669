"""ARC: the answers to all versions of a puzzle vote, and the two best ranked are handed in.

Two tallies are kept: each version's surest answer alone, or the answers of all of its branches.
"""

import pathlib
from typing import Any, Literal

import numpy as np

from pipeline_lib.latent.data.dataset_files import PuzzleSet, read_identifiers, read_test_puzzles
from pipeline_lib.latent.evaluation.branch_answers import by_confidence
from pipeline_lib.latent.evaluation.evaluate import AnsweredBatch
from pipeline_lib.latent.evaluation.grid_voting import (
    Tally,
    asked_by,
    pass_at,
    solutions_of_puzzles,
)
from pipeline_lib.latent.evaluation.submission import submission_of_votes, write_submission

Voters = Literal["picked", "all"]
TRANSDUCTIVE = (
    "transductive: the demonstrations of the test puzzles are part of the training data, and each "
    "puzzle has a learned vector of its own"
)
UNSCORED = "the test outputs are secret, so there is no pass@k here; the submission is to be judged"


class ArcVotes:
    """The votes of one model, or of several one after another."""

    def __init__(self, folder: pathlib.Path, data: PuzzleSet) -> None:
        self._puzzles = read_test_puzzles(folder)
        self._asked_N = asked_by(data, read_identifiers(folder), self._puzzles)
        self._tallies: dict[Voters, Tally] = {"picked": Tally(), "all": Tally()}

    def add(self, part: AnsweredBatch) -> None:
        """Count the answers of a batch. Without a grid in it, an answer is no vote."""
        answers = part.answers
        picked_B = by_confidence(answers)
        for row, asked in enumerate(self._asked_N[part.start : part.stop]):
            for branch in np.flatnonzero(np.isfinite(answers.confidences_BK[row])).tolist():
                tokens_L = answers.tokens_BKL[row, branch]
                confidence = float(answers.confidences_BK[row, branch])
                self._tallies["all"].add(asked, tokens_L, confidence=confidence)
                if branch == picked_B[row]:
                    self._tallies["picked"].add(asked, tokens_L, confidence=confidence)

    def figures(self) -> dict[str, Any]:
        """pass@k of either tally over the puzzles whose test outputs are known, if any are."""
        solutions = solutions_of_puzzles(self._puzzles)
        figures: dict[str, Any] = {
            "test puzzles": len(self._puzzles),
            "scored puzzles": len(solutions),
            "setting": TRANSDUCTIVE,
        }
        if not solutions:
            return {**figures, "unscored": UNSCORED}
        for voters, tally in self._tallies.items():
            shares = pass_at(tally, solutions)
            figures[voters] = {f"pass@{k}": share for k, share in shares.items()}
        return figures

    def submit(self, path: pathlib.Path, *, voters: Voters) -> int:
        """Write ``submission.json``; how many test inputs nobody answered."""
        submission = submission_of_votes(self._tallies[voters], self._puzzles)
        write_submission(path, submission, self._puzzles)
        return len(submission.unanswered)
