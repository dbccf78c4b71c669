"""Accuracy of K answers: the best of them (oracle), and the one selected by each label-free rule.

Counts are additive over batches and processes. Answers are compared at labelled positions; rows
without labels (secret answers) are counted separately. On ARC the labelled positions reveal the
size of the answer, so submissions use `grid_voting`, which sees no label. The oracle is an upper
bound.

Axes: B rows, K branches, L positions of the sequence, V tokens.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pipeline_lib.systems.prr.evaluation.branch_answers import (
    PICKS,
    AnswerTokens,
    Bools,
    BranchAnswers,
    BranchIndices,
    decode_answers,
    equal_answers,
)
from pipeline_lib.systems.prr.model.losses import branch_losses, exact_match
from pipeline_lib.systems.prr.model.protocol import IGNORED_LABEL, Batch, BranchOutput


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchCounts:
    """Sums over real rows with labels; ``+`` merges two batches."""

    rows: int
    unlabelled: int
    """Real rows without labels."""
    oracle: int
    """Rows with any exactly right branch; the next three: with a right selected branch."""
    scorer: int
    majority: int
    confidence: int
    right_branches: int
    decidable: int
    """Rows with right and wrong branches, where selection matters."""
    scorer_decided: int
    """Decidable rows in which the scorer selects a right branch."""
    confidence_decided: int
    best_K: tuple[int, ...]
    """Number of rows in which each branch has the lowest loss."""
    distinct: int
    """Sum over rows of the number of distinct answers."""
    disagreement: float
    """Sum over rows of the share of labels at which two branches differ, mean over pairs."""

    def __add__(self, other: "BranchCounts") -> "BranchCounts":
        """Merge; both must have the same number of branches."""
        return BranchCounts(
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
class BranchMetrics:
    """Means over real rows with labels, in [0, 1] unless noted."""

    rows: int
    oracle_exact: float
    scorer_exact: float
    majority_exact: float
    """Selected by votes of equal answers, ties by mean confidence."""
    confidence_exact: float
    """Selected by mean log-probability."""
    mean_branch_exact: float
    decidable: float
    scorer_picks_best: float | None
    """Share of decidable rows; None without any."""
    confidence_picks_best: float | None
    usage_entropy: float | None
    """Normalised entropy of the best branch: 1 if uniform; None for a single branch."""
    distinct_outputs: float
    """Distinct answers per row, 1 to K."""
    disagreement: float
    """Share of labels at which two branches differ, mean over pairs; not the diversity loss."""


@torch.no_grad()
def count_batch(output: BranchOutput, batch: Batch) -> BranchCounts:
    """Counts of one batch."""
    asked_BL = batch.labels_BL != IGNORED_LABEL
    real_B = batch.real_B & asked_BL.any(1)
    given = _answers_at(output, asked_BL).rows(real_B.cpu().numpy())
    exact_BK = exact_match(output.logits_BKLV, batch.labels_BL)[real_B].cpu().numpy()
    picked = {name: _at(exact_BK, pick(given)) for name, pick in PICKS.items()}
    same_BKK = equal_answers(given)
    best_B = branch_losses(output.logits_BKLV, batch.labels_BL)[real_B].argmin(1)
    decidable_B = exact_BK.any(1) & ~exact_BK.all(1)
    return BranchCounts(
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


def compute_metrics(counts: BranchCounts) -> BranchMetrics:
    """Means from counts; ValueError without a real row with labels."""
    if counts.rows == 0:
        raise ValueError("rows=0; metrics need at least one real row with labels")
    num_branches = len(counts.best_K)

    def decided(count: int) -> float | None:
        return count / counts.decidable if counts.decidable else None

    return BranchMetrics(
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


def _answers_at(output: BranchOutput, asked_BL: Tensor) -> BranchAnswers:
    """Answers at the labelled positions."""
    asked_B1L = asked_BL[:, None].cpu().numpy()
    return decode_answers(output, lambda tokens_BKL: np.broadcast_to(asked_B1L, tokens_BKL.shape))


def _at(of_BK: Bools, picked_B: BranchIndices) -> Bools:
    """The selected branch of each row."""
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
