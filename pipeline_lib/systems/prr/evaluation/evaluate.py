"""Evaluates a latent model on the test split of its data.

Answers are judged in `answers`; on ARC the answers of all versions also vote (`arc_votes`). Padding rows are
excluded.
Legend: N examples, A right answers of an example, L tokens.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.prr import PrrEvaluateParams
from pipeline_lib.seeding import child_seed
from pipeline_lib.systems.prr.data.dataset_files import PuzzleSet
from pipeline_lib.systems.prr.evaluation.answers import (
    AnswerMask,
    AnswerTokens,
    BranchAnswers,
    CoveredRows,
    JudgedRows,
    cover_batch,
    decode_answers,
    full_mask,
    joined,
    judge_batch,
)
from pipeline_lib.systems.prr.model.batches import evaluation_batches
from pipeline_lib.systems.prr.model.prr import PrrModel
from pipeline_lib.systems.prr.model.trm import TrmModel

Progress = Callable[[int, int], None]
"""Called with the number of examples done and the total."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedBatch:
    """Examples ``start`` to ``stop`` of the set with their answers, without padding."""

    start: int
    stop: int
    answers: BranchAnswers
    judged: JudgedRows
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
    for places, rows in evaluation_batches(data, batch_size=params.batch_size):
        batch = rows.to(device)
        output = model.predict(
            batch,
            steps=params.steps,
            noise=params.noise,
            rollouts=params.rollouts,
            # On a GPU too, torch draws there by seed and count of draws (Philox): nothing is copied.
            generator=[
                torch.Generator(device).manual_seed(child_seed(seed, "evaluate", place))
                for place in range(places.start, places.start + params.batch_size)
            ],
        )
        yield PredictedBatch(
            start=places.start,
            stop=places.stop,
            answers=decode_answers(output, mask).rows(slice(len(places))),
            judged=judge_batch(output, batch, start=places.start),
            core_passes=output.core_passes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedSet:
    """A whole set, judged for one model."""

    judged: JudgedRows
    covered: CoveredRows | None
    """None where not all right answers are known."""
    core_passes: float
    """Of one example."""


def evaluate_set(
    parts: Iterable[PredictedBatch], *, answers_NAL: AnswerTokens | None = None
) -> EvaluatedSet:
    """Judge the predictions of a whole set; ``answers_NAL`` has all right answers where they are known.

    Raises:
        BadInputError: the set has no example.
    """
    judged: list[JudgedRows] = []
    covered: list[CoveredRows] = []
    core_passes = 0.0
    for part in parts:
        core_passes = part.core_passes
        judged.append(part.judged)
        if answers_NAL is not None:
            covered.append(cover_batch(part.answers, answers_NAL[part.start : part.stop]))
    if not judged:
        raise BadInputError("the test split has no example; build it again")
    return EvaluatedSet(
        judged=joined(judged), covered=joined(covered) if covered else None, core_passes=core_passes
    )
