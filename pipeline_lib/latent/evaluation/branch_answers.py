"""From a model's output to answers: tokens, how sure each is, and which of K to give.

Nothing here sees a label. An answer is the whole sequence, or, on a canvas of ARC, the rectangle of
colours that the evaluator will crop; what stands around it is noise and decides nothing.
Axes: B rows, K branches, L tokens, V tokens of the vocabulary.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline_lib.latent.data.vocabulary import PAD, crop
from pipeline_lib.latent.model.losses import likeliest_log_probabilities
from pipeline_lib.latent.model.protocol import BranchOutput

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float32]
Places = npt.NDArray[np.int64]
AnswerTokens = npt.NDArray[np.uint8]

Regions = Callable[[AnswerTokens], Bools]
"""Where in tokens [B, K, L] the answers stand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """K answers to each of B examples."""

    tokens_BKL: AnswerTokens
    kept_BKL: AnswerTokens
    """The same with padding outside of the answers: equal ones are the same answer."""
    scores_BK: Floats
    """Logits of the scorer."""
    confidences_BK: Floats
    """Mean log-probability of the tokens of the answer; -inf where there is none."""

    def rows(self, which: slice | Bools) -> "Answers":
        """Some of the rows."""
        return Answers(
            tokens_BKL=self.tokens_BKL[which],
            kept_BKL=self.kept_BKL[which],
            scores_BK=self.scores_BK[which],
            confidences_BK=self.confidences_BK[which],
        )


def whole(tokens_BKL: AnswerTokens) -> Bools:
    """Every position is part of the answer."""
    return np.ones(tokens_BKL.shape, dtype=np.bool_)


def cropped(tokens_BKL: AnswerTokens) -> Bools:
    """The rectangle of colours at the upper left, on a square canvas; empty where there is none."""
    batch, branches, length = tokens_BKL.shape
    side = math.isqrt(length)
    inside = np.zeros((batch, branches, side, side), dtype=np.bool_)
    for row in range(batch):
        for branch in range(branches):
            grid = crop(tokens_BKL[row, branch])
            if grid is not None:
                inside[row, branch, : len(grid), : len(grid[0])] = True
    return inside.reshape(tokens_BKL.shape)


def answers_of(output: BranchOutput, regions: Regions) -> Answers:
    """The likeliest token at every position, and what speaks for each answer."""
    best_BKL = output.logits_BKLV.argmax(-1)
    log_BKL = likeliest_log_probabilities(output.logits_BKLV).cpu().numpy()
    tokens_BKL = best_BKL.cpu().numpy().astype(np.uint8)
    inside_BKL = regions(tokens_BKL)
    sizes_BK = inside_BKL.sum(-1)
    sums_BK = (log_BKL * inside_BKL).sum(-1)
    sure_BK = np.where(sizes_BK > 0, sums_BK / np.maximum(sizes_BK, 1), -np.inf)
    return Answers(
        tokens_BKL=tokens_BKL,
        kept_BKL=np.where(inside_BKL, tokens_BKL, np.uint8(PAD)),
        scores_BK=output.scores_BK.float().cpu().numpy(),
        confidences_BK=sure_BK.astype(np.float32),
    )


def same_answers(answers: Answers) -> Bools:
    """[B, K, K]: which branches give the same answer."""
    kept_BKL = answers.kept_BKL
    same: Bools = (kept_BKL[:, :, None] == kept_BKL[:, None]).all(-1)
    return same


def by_score(answers: Answers) -> Places:
    """The branch [B] whose score is highest; the first of equal ones."""
    return np.asarray(answers.scores_BK.argmax(1))


def by_confidence(answers: Answers) -> Places:
    """The branch [B] with the highest mean log-probability; the first of equal ones."""
    return np.asarray(answers.confidences_BK.argmax(1))


def by_majority(answers: Answers) -> Places:
    """A branch [B] with the commonest answer; among equally common ones the surest on average."""
    same_BKK = same_answers(answers)
    votes_BK = same_BKK.sum(-1)
    # No answer at all gets no vote.
    votes_BK = np.where(np.isfinite(answers.confidences_BK), votes_BK, 0)
    sure_BK = np.where(np.isfinite(answers.confidences_BK), answers.confidences_BK, -1e9)
    mean_BK = (same_BKK * sure_BK[:, None]).sum(-1) / same_BKK.sum(-1)
    tied_BK = votes_BK == votes_BK.max(1, keepdims=True)
    return np.asarray(np.where(tied_BK, mean_BK, -np.inf).argmax(1))


PICKS: Mapping[str, Callable[[Answers], Places]] = {
    "scorer": by_score,
    "majority": by_majority,
    "confidence": by_confidence,
}
"""Ways to give one of K answers without knowing the label."""
