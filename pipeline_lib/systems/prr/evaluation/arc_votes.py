"""ARC: predictions for all versions of a puzzle vote; the two top-ranked grids are submitted.

Two tallies are kept: one vote per version (its most confident branch), or one per branch.
"""

import pathlib
from typing import Any, Literal

import numpy as np

from pipeline_lib.systems.prr.data.dataset_files import (
    PuzzleSet,
    read_identifiers,
    read_test_puzzles,
)
from pipeline_lib.systems.prr.evaluation.branch_answers import pick_by_confidence
from pipeline_lib.systems.prr.evaluation.evaluate import PredictedBatch
from pipeline_lib.systems.prr.evaluation.grid_voting import (
    GridVotes,
    known_solutions,
    ranked_pass_at_k,
    resolve_inputs,
)
from pipeline_lib.systems.prr.evaluation.submission import (
    score_known_puzzles,
    submission_of_votes,
    write_submission,
)

Voters = Literal["picked", "all"]


class ArcVotes:
    """Votes of one model, or of several added in turn."""

    def __init__(self, folder: pathlib.Path, data: PuzzleSet) -> None:
        self._puzzles = read_test_puzzles(folder)
        self._asked_N = resolve_inputs(data, read_identifiers(folder), self._puzzles)
        self._tallies: dict[Voters, GridVotes] = {"picked": GridVotes(), "all": GridVotes()}

    def add(self, part: PredictedBatch) -> None:
        """Count the answers of a batch; answers without a grid are not votes."""
        answers = part.answers
        picked_B = pick_by_confidence(answers)
        for row, asked in enumerate(self._asked_N[part.start : part.stop]):
            for branch in np.flatnonzero(np.isfinite(answers.confidences_BK[row])).tolist():
                tokens_L = answers.tokens_BKL[row, branch]
                confidence = float(answers.confidences_BK[row, branch])
                self._tallies["all"].add(asked, tokens_L, confidence=confidence)
                if branch == picked_B[row]:
                    self._tallies["picked"].add(asked, tokens_L, confidence=confidence)

    def metrics(self) -> dict[str, Any]:
        """pass@k of both tallies over the puzzles with known test outputs, if there are any."""
        solutions = known_solutions(self._puzzles)
        figures: dict[str, Any] = {
            "test puzzles": len(self._puzzles),
            "scored puzzles": len(solutions),
        }
        for voters, tally in self._tallies.items() if solutions else ():
            shares = ranked_pass_at_k(tally, solutions)
            figures[voters] = {f"pass@{k}": share for k, share in shares.items()}
        return figures

    def submit(self, path: pathlib.Path, *, voters: Voters) -> dict[str, Any]:
        """Write ``submission.json``; returns its metrics.

        The ARC Prize score is the mean over puzzles of the share of test inputs solved by one of
        two attempts. It is present if test outputs are known.
        """
        submission = submission_of_votes(self._tallies[voters], self._puzzles)
        write_submission(path, submission, self._puzzles)
        metrics: dict[str, Any] = {"unanswered test inputs": len(submission.unanswered)}
        score = score_known_puzzles(submission, self._puzzles)
        if score is not None:
            metrics["submission"] = {
                "ARC Prize score": score.pass_at_2,
                "test inputs solved": score.test_inputs_solved,
                "puzzles solved": score.all_solved,
            }
        return metrics
