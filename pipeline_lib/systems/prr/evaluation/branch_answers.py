"""Decodes model outputs into K answers with confidences, and selects one of them without labels.

An answer is the whole sequence or, on an ARC canvas, the rectangle of colours that the evaluator
crops; tokens outside of it are ignored.

Axes: B rows, K branches, L tokens, V tokens of the vocabulary.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from pipeline_lib.systems.prr.data.vocabulary import PAD, crop
from pipeline_lib.systems.prr.model.losses import max_token_logprobs
from pipeline_lib.systems.prr.model.protocol import BranchOutput

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float32]
BranchIndices = npt.NDArray[np.int64]
AnswerTokens = npt.NDArray[np.uint8]

AnswerMask = Callable[[AnswerTokens], Bools]
"""Maps tokens [B, K, L] to the mask of the positions that belong to the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchAnswers:
    """K answers to each of B examples, on the CPU."""

    tokens_BKL: AnswerTokens
    kept_BKL: AnswerTokens
    """The tokens with padding outside of the answer: equal rows are equal answers."""
    scores_BK: Floats
    """Logits of the scorer."""
    confidences_BK: Floats
    """Mean log-probability of the answer's tokens; -inf without an answer."""

    def rows(self, which: slice | Bools) -> "BranchAnswers":
        """Select rows."""
        return BranchAnswers(**{one.name: getattr(self, one.name)[which] for one in fields(self)})


def full_mask(tokens_BKL: AnswerTokens) -> Bools:
    """All positions."""
    return np.ones(tokens_BKL.shape, dtype=np.bool_)


def grid_mask(tokens_BKL: AnswerTokens) -> Bools:
    """The upper left rectangle of colours on a square canvas; empty if there is none."""
    batch, branches, length = tokens_BKL.shape
    side = math.isqrt(length)
    inside = np.zeros((batch, branches, side, side), dtype=np.bool_)
    for row in range(batch):
        for branch in range(branches):
            grid = crop(tokens_BKL[row, branch])
            if grid is not None:
                inside[row, branch, : len(grid), : len(grid[0])] = True
    return inside.reshape(tokens_BKL.shape)


def decode_answers(output: BranchOutput, mask: AnswerMask) -> BranchAnswers:
    """Argmax tokens with scores and confidences."""
    best_BKL = output.logits_BKLV.argmax(-1)
    log_BKL = max_token_logprobs(output.logits_BKLV).cpu().numpy()
    tokens_BKL = best_BKL.cpu().numpy().astype(np.uint8)
    inside_BKL = mask(tokens_BKL)
    sizes_BK = inside_BKL.sum(-1)
    sums_BK = (log_BKL * inside_BKL).sum(-1)
    sure_BK = np.where(sizes_BK > 0, sums_BK / np.maximum(sizes_BK, 1), -np.inf)
    return BranchAnswers(
        tokens_BKL=tokens_BKL,
        kept_BKL=np.where(inside_BKL, tokens_BKL, np.uint8(PAD)),
        scores_BK=output.scores_BK.float().cpu().numpy(),
        confidences_BK=sure_BK.astype(np.float32),
    )


def equal_answers(answers: BranchAnswers) -> Bools:
    """Bool [B, K, K]: pairs of branches with equal answers."""
    kept_BKL = answers.kept_BKL
    same: Bools = (kept_BKL[:, :, None] == kept_BKL[:, None]).all(-1)
    return same


def pick_by_majority(answers: BranchAnswers) -> BranchIndices:
    """Branch [B] with the most common answer; ties go to the highest mean confidence."""
    same_BKK = equal_answers(answers)
    votes_BK = same_BKK.sum(-1)
    # Missing answers get no vote.
    votes_BK = np.where(np.isfinite(answers.confidences_BK), votes_BK, 0)
    sure_BK = np.where(np.isfinite(answers.confidences_BK), answers.confidences_BK, -1e9)
    mean_BK = (same_BKK * sure_BK[:, None]).sum(-1) / same_BKK.sum(-1)
    tied_BK = votes_BK == votes_BK.max(1, keepdims=True)
    return np.asarray(np.where(tied_BK, mean_BK, -np.inf).argmax(1))


PICKS: Mapping[str, Callable[[BranchAnswers], BranchIndices]] = {
    "scorer": lambda answers: np.asarray(answers.scores_BK.argmax(1)),
    "majority": pick_by_majority,
    "confidence": lambda answers: np.asarray(answers.confidences_BK.argmax(1)),
}
"""Label-free rules to select one of K answers, a branch [B]; ties go to the first."""
