"""What a latent model can do on the test split of its data.

Counts come from `metrics`; where the data are puzzles of ARC, the answers of all versions vote
(`voting`). Rows that fill up a batch count nowhere. The oracle looks at the label: an upper bound.
Legend: N examples, A right answers of an example, K branches, L tokens.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pipeline_lib.errors import BadInputError
from pipeline_lib.latent.data.dataset_files import PuzzleSet
from pipeline_lib.latent.evaluation.branch_answers import PICKS, Answers, Regions, answers_of, whole
from pipeline_lib.latent.evaluation.branch_metrics import Counts, counted, metrics_of
from pipeline_lib.latent.model.batches import evaluation_batches
from pipeline_lib.latent.model.prr import PrrModel
from pipeline_lib.latent.model.trm import TrmModel
from pipeline_lib.params.latent import LatentEvaluateParams
from pipeline_lib.seeding import child_seed

Progress = Callable[[int, int], None]
"""Called with the examples that are done, and all."""
RightAnswers = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredBatch:
    """Examples ``start`` to ``stop`` of the set with their answers; nothing of the padding."""

    start: int
    stop: int
    answers: Answers
    counts: Counts
    core_passes: float


def answered(
    model: PrrModel | TrmModel,
    data: PuzzleSet,
    params: LatentEvaluateParams,
    *,
    seed: int,
    regions: Regions = whole,
) -> Iterator[AnsweredBatch]:
    """Answer all examples, batch by batch.

    With noise, what is drawn for an example depends on the seed and its place in the set alone: neither
    on the size of a batch, nor, in a rollout, on how many follow.
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
            generator=[_drawn_at(place, seed=seed) for place in places],
        )
        yield AnsweredBatch(
            start=part.start,
            stop=part.stop,
            answers=answers_of(output, regions).rows(slice(part.stop - part.start)),
            counts=counted(output, batch),
            core_passes=output.core_passes,
        )


def _drawn_at(place: int, *, seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(child_seed(seed, "evaluate", place))


def summary(counts: Counts, *, core_passes: float) -> dict[str, Any]:
    """The figures of all examples as plain values; `oracle` names the upper bound as one.

    Examples whose answer is secret are in no share; where all are, there are no shares.
    """
    figures: dict[str, Any] = {"rows": 0}
    if counts.rows:
        figures = asdict(metrics_of(counts))
        figures["oracle_exact_upper_bound"] = figures.pop("oracle_exact")
    return {
        **figures,
        "unlabelled_rows": counts.unlabelled,
        "core_passes": core_passes,
        "branches": len(counts.best_K),
    }


class KnownAnswers:
    """Where an example has several right answers: how many are found, and whether picks are right.

    The label is only one of them, so that a right pick can miss it.
    """

    def __init__(self, answers_NAL: RightAnswers) -> None:
        self._answers_NAL = answers_NAL
        self._rows: list[dict[str, float]] = []

    def add(self, part: AnsweredBatch) -> None:
        """Take in one batch."""
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

    def figures(self) -> Mapping[str, dict[str, float]]:
        """Means over the examples with 1, 2, ... right answers, by that number."""
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
    params: LatentEvaluateParams,
    *,
    seed: int,
    listeners: Sequence[Callable[[AnsweredBatch], None]] = (),
    regions: Regions = whole,
) -> dict[str, Any]:
    """The figures of a whole set; each of ``listeners`` gets every batch on the way.

    Raises:
        BadInputError: the set has no example.
    """
    total: Counts | None = None
    core_passes = 0.0
    for part in answered(model, data, params, seed=seed, regions=regions):
        total = part.counts if total is None else total + part.counts
        core_passes = part.core_passes
        for listener in listeners:
            listener(part)
    if total is None:
        raise BadInputError("the test split has no example; build it again")
    return summary(total, core_passes=core_passes)
