"""Decodes model outputs into K answers, selects one of them without labels, and judges which are right.

An answer is the whole sequence or, on an ARC canvas, the rectangle of colours that the evaluator
crops; tokens outside of it are ignored. Answers are compared with the label at labelled positions, or with all right
answers where those are known. Rows without labels (secret answers) are only counted. On ARC the labelled positions
reveal the size of the answer, so submissions use `arc_votes`, which sees no label.

Axes: B rows, K branches, A right answers, L positions of the sequence, V tokens.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from pipeline_lib.systems.prr.data.grids import PAD, crop
from pipeline_lib.systems.prr.model.batches import IGNORED_LABEL, Batch, BranchOutput
from pipeline_lib.systems.prr.model.losses import branch_losses, exact_match, max_token_logprobs

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


ORACLE = "oracle"
"""The rule that looks at the label: an upper bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRows:
    """Real rows with labels, judged by their labels."""

    places_B: BranchIndices
    """Index in the set."""
    unlabelled: int
    """Real rows without labels."""
    right_BK: Bools
    scores_BK: Floats
    """Logits of the scorer."""
    confidences_BK: Floats
    """Mean log-probability of the answer at the labelled positions."""
    picked: Mapping[str, BranchIndices]
    """By rule, the selected branch [B]."""
    best_B: BranchIndices
    """The branch with the lowest loss."""
    distinct: int
    """Sum over rows of the number of distinct answers."""
    disagreement: float
    """Sum over rows of the share of labels at which two branches differ, mean over pairs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveredRows:
    """Rows judged by all right answers of an example, of which the label is only one."""

    answers_B: BranchIndices
    """Number of distinct right answers."""
    found_B: npt.NDArray[np.float64]
    """Share of them that some branch gives."""
    right_BK: Bools
    picked: Mapping[str, BranchIndices]


Rows = TypeVar("Rows", JudgedRows, CoveredRows)


def right_by_rule(rows: JudgedRows | CoveredRows) -> dict[str, Bools]:
    """By rule, and for the oracle: whether the selected branch is right [B]."""
    every = np.arange(len(rows.right_BK))
    chosen = {name: rows.right_BK[every, picked_B] for name, picked_B in rows.picked.items()}
    return {**chosen, ORACLE: np.asarray(rows.right_BK.any(1))}


def decidable(rows: JudgedRows) -> Bools:
    """Rows with right and wrong branches, where selection matters [B]."""
    return np.asarray(rows.right_BK.any(1) & ~rows.right_BK.all(1))


def joined(parts: Sequence[Rows]) -> Rows:
    """The rows of several batches: arrays are concatenated, sums added."""
    columns = {
        field.name: [getattr(part, field.name) for part in parts] for field in fields(parts[0])
    }
    return type(parts[0])(**{name: _joined(column) for name, column in columns.items()})


def _joined(column: Sequence[Any]) -> Any:
    if isinstance(column[0], Mapping):
        return {name: np.concatenate([one[name] for one in column]) for name in column[0]}
    return np.concatenate(column) if isinstance(column[0], np.ndarray) else sum(column)


@torch.no_grad()
def judge_batch(output: BranchOutput, batch: Batch, *, start: int = 0) -> JudgedRows:
    """Judge a batch whose first row is example ``start`` of its set."""
    asked_BL = batch.labels_BL != IGNORED_LABEL
    labelled_B = batch.real_B & asked_BL.any(1)
    kept_B, asked_BLn = labelled_B.cpu().numpy(), asked_BL.cpu().numpy()

    def mask(tokens_BKL: AnswerTokens) -> Bools:
        return np.broadcast_to(asked_BLn[:, None], tokens_BKL.shape)

    given = decode_answers(output, mask).rows(kept_B)
    losses_BK = branch_losses(output.logits_BKLV, batch.labels_BL)[labelled_B]
    num_branches = losses_BK.shape[1]
    differ_B = (given.kept_BKL[:, :, None] != given.kept_BKL[:, None]).sum((1, 2, 3))
    labels_B = max(1, num_branches * (num_branches - 1)) * asked_BLn[kept_B].sum(-1)
    return JudgedRows(
        places_B=start + np.flatnonzero(kept_B),
        unlabelled=int((batch.real_B & ~labelled_B).sum()),
        right_BK=exact_match(output.logits_BKLV, batch.labels_BL)[labelled_B].cpu().numpy(),
        scores_BK=given.scores_BK,
        confidences_BK=given.confidences_BK,
        picked={name: pick(given) for name, pick in PICKS.items()},
        best_B=losses_BK.argmin(1).cpu().numpy(),
        distinct=int((~np.tril(equal_answers(given), -1).any(-1)).sum()),
        disagreement=float((differ_B / labels_B).sum()),
    )


def cover_batch(answers: BranchAnswers, right_BAL: AnswerTokens) -> CoveredRows:
    """Judge answers by all right ones; repeats among these count once."""
    hits_BKA = (answers.kept_BKL[:, :, None] == right_BAL[:, None]).all(-1)
    first_BA = np.zeros(right_BAL.shape[:2], dtype=np.bool_)
    for row, right_AL in enumerate(right_BAL):
        first_BA[row, np.unique(right_AL, axis=0, return_index=True)[1]] = True
    answers_B = first_BA.sum(1)
    return CoveredRows(
        answers_B=answers_B,
        found_B=(hits_BKA.any(1) & first_BA).sum(1) / answers_B,
        right_BK=hits_BKA.any(2),
        picked={name: pick(answers) for name, pick in PICKS.items()},
    )


def branch_figures(rows: JudgedRows) -> dict[str, float]:
    """Figures of several branches besides their accuracy; empty without rows, or for a single branch.

    ``scorer picks lowest loss``: share of rows.
    ``decidable``: share of rows with right and wrong branches. ``usage entropy``: normalised entropy of the branch
    with the lowest loss, 1 if uniform. ``distinct outputs``: answers per row, 1 to K. ``disagreement``: share of
    labels at which two branches differ, mean over pairs.
    """
    num_rows, num_branches = rows.right_BK.shape
    if not num_rows or num_branches == 1:
        return {}
    shares = [count / num_rows for count in np.bincount(rows.best_B).tolist() if count]
    return {
        "decidable": int(decidable(rows).sum()) / num_rows,
        "scorer picks lowest loss": float((rows.picked["scorer"] == rows.best_B).mean()),
        "usage entropy": -sum(one * math.log(one) for one in shares) / math.log(num_branches),
        "distinct outputs": rows.distinct / num_rows,
        "disagreement": rows.disagreement / num_rows,
    }
