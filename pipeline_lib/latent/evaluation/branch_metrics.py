"""How good K answers are: the best of them, and the one that each way of picking would hand in.

Counts add up over batches and processes; shares are taken at the end. An answer is compared at the
positions that have labels; a row without any, whose answer is secret, is counted apart. In ARC these
tell the size of the answer, so what is handed in there is picked by `voting`, which looks at no label.
The oracle looks at the labels and is an upper bound.

Axes: B rows, K branches, L positions of the sequence, V tokens.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pipeline_lib.latent.evaluation.branch_answers import (
    PICKS,
    Answers,
    AnswerTokens,
    Bools,
    Places,
    answers_of,
    same_answers,
)
from pipeline_lib.latent.model.losses import branch_losses, exact
from pipeline_lib.latent.model.protocol import IGNORED_LABEL, Batch, BranchOutput


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Sums over real rows with labels; ``+`` joins those of two batches."""

    rows: int
    unlabelled: int
    """Real rows besides, whose answers nobody here knows."""
    oracle: int
    """Rows of which some branch is exactly right; the next three: of which the picked one is."""
    scorer: int
    majority: int
    confidence: int
    right_branches: int
    decidable: int
    """Rows with right and wrong branches: only there can a pick be better than another."""
    scorer_decided: int
    """Of these the ones in which the scorer picks a right branch."""
    confidence_decided: int
    best_K: tuple[int, ...]
    """How often each branch has the least loss."""
    distinct: int
    """Different answers, added up over rows."""
    disagreement: float
    """Share of labels at which two branches differ, averaged over pairs, added up over rows."""

    def __add__(self, other: "Counts") -> "Counts":
        """The counts of both; they must have as many branches."""
        return Counts(
            rows=self.rows + other.rows,
            unlabelled=self.unlabelled + other.unlabelled,
            oracle=self.oracle + other.oracle,
            scorer=self.scorer + other.scorer,
            majority=self.majority + other.majority,
            confidence=self.confidence + other.confidence,
            right_branches=self.right_branches + other.right_branches,
            decidable=self.decidable + other.decidable,
            scorer_decided=self.scorer_decided + other.scorer_decided,
            confidence_decided=self.confidence_decided + other.confidence_decided,
            best_K=tuple(a + b for a, b in zip(self.best_K, other.best_K, strict=True)),
            distinct=self.distinct + other.distinct,
            disagreement=self.disagreement + other.disagreement,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Shares of the real rows with labels, in [0, 1] unless said otherwise."""

    rows: int
    oracle_exact: float
    scorer_exact: float
    majority_exact: float
    """By votes of equal answers, ties by their mean confidence."""
    confidence_exact: float
    """By the mean maximal log-probability."""
    mean_branch_exact: float
    decidable: float
    scorer_picks_best: float | None
    """Of the decidable rows; None where there is none."""
    confidence_picks_best: float | None
    usage_entropy: float | None
    """Entropy of which branch is best, 1 if all are equally often; None for a single branch."""
    distinct_outputs: float
    """Different answers a row, 1 to K."""
    disagreement: float
    """Labels at which two branches differ, mean over pairs; not the loss called diversity."""


@torch.no_grad()
def counted(output: BranchOutput, batch: Batch) -> Counts:
    """The counts of one batch."""
    asked_BL = batch.labels_BL != IGNORED_LABEL
    real_B = batch.real_B & asked_BL.any(1)
    given = _answers_at(output, asked_BL).rows(real_B.cpu().numpy())
    exact_BK = exact(output.logits_BKLV, batch.labels_BL)[real_B].cpu().numpy()
    picked = {name: _at(exact_BK, pick(given)) for name, pick in PICKS.items()}
    same_BKK = same_answers(given)
    best_B = branch_losses(output.logits_BKLV, batch.labels_BL)[real_B].argmin(1)
    decidable_B = exact_BK.any(1) & ~exact_BK.all(1)
    return Counts(
        rows=int(real_B.sum()),
        unlabelled=int((batch.real_B & ~real_B).sum()),
        oracle=int(exact_BK.any(1).sum()),
        scorer=int(picked["scorer"].sum()),
        majority=int(picked["majority"].sum()),
        confidence=int(picked["confidence"].sum()),
        right_branches=int(exact_BK.sum()),
        decidable=int(decidable_B.sum()),
        scorer_decided=int((picked["scorer"] & decidable_B).sum()),
        confidence_decided=int((picked["confidence"] & decidable_B).sum()),
        best_K=tuple(torch.bincount(best_B, minlength=exact_BK.shape[1]).tolist()),
        distinct=int((~np.tril(same_BKK, -1).any(-1)).sum()),
        disagreement=_disagreement(given.kept_BKL, asked_BL[real_B]),
    )


def metrics_of(counts: Counts) -> Metrics:
    """The shares. Raises ValueError without a real row that has labels."""
    if counts.rows == 0:
        raise ValueError("rows=0; metrics need at least one real row with labels")
    num_branches = len(counts.best_K)

    def decided(count: int) -> float | None:
        return count / counts.decidable if counts.decidable else None

    return Metrics(
        rows=counts.rows,
        oracle_exact=counts.oracle / counts.rows,
        scorer_exact=counts.scorer / counts.rows,
        majority_exact=counts.majority / counts.rows,
        confidence_exact=counts.confidence / counts.rows,
        mean_branch_exact=counts.right_branches / (counts.rows * num_branches),
        decidable=counts.decidable / counts.rows,
        scorer_picks_best=decided(counts.scorer_decided),
        confidence_picks_best=decided(counts.confidence_decided),
        usage_entropy=_relative_entropy(counts.best_K),
        distinct_outputs=counts.distinct / counts.rows,
        disagreement=counts.disagreement / counts.rows,
    )


def _answers_at(output: BranchOutput, asked_BL: Tensor) -> Answers:
    """The answers, at the positions that have labels."""
    asked_B1L = asked_BL[:, None].cpu().numpy()
    return answers_of(output, lambda tokens_BKL: np.broadcast_to(asked_B1L, tokens_BKL.shape))


def _at(of_BK: Bools, picked_B: Places) -> Bools:
    """Of each row the picked branch."""
    return of_BK[np.arange(len(of_BK)), picked_B]


def _disagreement(kept_BKL: AnswerTokens, asked_BL: Tensor) -> float:
    num_branches = kept_BKL.shape[1]
    pairs = max(1, num_branches * (num_branches - 1))
    differ_B = (kept_BKL[:, :, None] != kept_BKL[:, None]).sum((1, 2, 3))
    return float((differ_B / (pairs * asked_BL.sum(-1).cpu().numpy())).sum())


def _relative_entropy(counts: tuple[int, ...]) -> float | None:
    if len(counts) == 1:
        return None
    shares = [count / sum(counts) for count in counts if count]
    return -sum(share * math.log(share) for share in shares) / math.log(len(counts))
