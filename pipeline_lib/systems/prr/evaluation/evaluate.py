"""Evaluates a latent model on the test split of its data.

Metrics are defined in `branch_metrics`; on ARC the answers of all versions also vote (`arc_votes`).
Padding rows are excluded.
Legend: N examples, A correct answers of an example, K branches, L tokens.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.prr import PrrEvaluateParams
from pipeline_lib.seeding import child_seed
from pipeline_lib.systems.prr.data.dataset_files import PuzzleSet
from pipeline_lib.systems.prr.evaluation.branch_answers import (
    PICKS,
    AnswerMask,
    BranchAnswers,
    decode_answers,
    full_mask,
)
from pipeline_lib.systems.prr.evaluation.branch_metrics import (
    BranchCounts,
    compute_metrics,
    count_batch,
)
from pipeline_lib.systems.prr.model.batches import evaluation_batches
from pipeline_lib.systems.prr.model.prr import PrrModel
from pipeline_lib.systems.prr.model.trm import TrmModel

Progress = Callable[[int, int], None]
"""Called with the number of examples done and the total."""
RightAnswers = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedBatch:
    """Examples ``start`` to ``stop`` of the set with their answers, without padding."""

    start: int
    stop: int
    answers: BranchAnswers
    counts: BranchCounts
    core_passes: float


def predict_batches(
    model: PrrModel | TrmModel,
    data: PuzzleSet,
    params: PrrEvaluateParams,
    *,
    seed: int,
    mask: AnswerMask = full_mask,
) -> Iterator[PredictedBatch]:
    """Predict all examples, batch by batch.

    The noise of an example depends only on the seed and its index in the set, not on the batch size
    or the number of rollouts.
    """
    device = next(model.parameters()).device
    for part in evaluation_batches(data, batch_size=params.batch_size):
        batch = part.batch.to(device)
        places = range(part.start, part.start + params.batch_size)
        output = model.predict(
            batch,
            steps=params.steps,
            noise=params.noise,
            rollouts=params.rollouts,
            # On a GPU too, torch draws there by seed and count of draws (Philox): nothing is copied.
            generator=[
                torch.Generator(device).manual_seed(child_seed(seed, "evaluate", place))
                for place in places
            ],
        )
        yield PredictedBatch(
            start=part.start,
            stop=part.stop,
            answers=decode_answers(output, mask).rows(slice(part.stop - part.start)),
            counts=count_batch(output, batch),
            core_passes=output.core_passes,
        )


def summarize_counts(counts: BranchCounts, *, core_passes: float) -> dict[str, Any]:
    """Metrics as plain values; the oracle is labelled as an upper bound.

    Examples without labels are excluded; if all are, only the counts remain.
    """
    figures: dict[str, Any] = {"rows": 0}
    if counts.rows:
        figures = asdict(compute_metrics(counts))
        figures["oracle_exact_upper_bound"] = figures.pop("oracle_exact")
    return {
        **figures,
        "unlabelled_rows": counts.unlabelled,
        "core_passes": core_passes,
        "branches": len(counts.best_K),
    }


class AnswerCoverage:
    """Metrics against all correct answers of an example, of which the label is only one.

    Counts how many are found by any branch, and if the selected branch gives one of them.
    """

    def __init__(self, answers_NAL: RightAnswers) -> None:
        self._answers_NAL = answers_NAL
        self._rows: list[dict[str, float]] = []

    def add(self, part: PredictedBatch) -> None:
        """Add one batch."""
        right_BAL = self._answers_NAL[part.start : part.stop]
        hits_BKA = (part.answers.kept_BKL[:, :, None] == right_BAL[:, None]).all(-1)
        picked = {name: pick(part.answers) for name, pick in PICKS.items()}
        for row, hits_KA in enumerate(hits_BKA):
            distinct = np.unique(right_BAL[row], axis=0, return_index=True)[1]
            found_A = hits_KA[:, distinct].any(0)
            right_K = hits_KA.any(1)
            self._rows.append(
                {
                    "answers": len(distinct),
                    "found": float(found_A.mean()),
                    "all_found": float(found_A.all()),
                    "mean_branch_right": float(right_K.mean()),
                    **{f"{name}_right": float(right_K[at[row]]) for name, at in picked.items()},
                }
            )

    def metrics(self) -> Mapping[str, dict[str, float]]:
        """Means over examples, grouped by their number of correct answers."""
        by_number: dict[str, list[dict[str, float]]] = {}
        for row in self._rows:
            by_number.setdefault(f"{row['answers']:.0f}", []).append(row)
        return {
            number: {
                "rows": len(rows),
                **{name: float(np.mean([row[name] for row in rows])) for name in rows[0]},
            }
            for number, rows in sorted(by_number.items())
        }


def evaluate_set(
    model: PrrModel | TrmModel,
    data: PuzzleSet,
    params: PrrEvaluateParams,
    *,
    seed: int,
    listeners: Sequence[Callable[[PredictedBatch], None]] = (),
    mask: AnswerMask = full_mask,
) -> dict[str, Any]:
    """Metrics of a whole set; each of ``listeners`` is called with every batch.

    Raises:
        BadInputError: the set has no example.
    """
    total: BranchCounts | None = None
    core_passes = 0.0
    for part in predict_batches(model, data, params, seed=seed, mask=mask):
        total = part.counts if total is None else total + part.counts
        core_passes = part.core_passes
        for listener in listeners:
            listener(part)
    if total is None:
        raise BadInputError("the test split has no example; build it again")
    return summarize_counts(total, core_passes=core_passes)
