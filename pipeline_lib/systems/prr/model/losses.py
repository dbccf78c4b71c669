"""Best-of-K loss, plus a scorer loss that predicts the best branch.

Axes: B rows, K branches, L positions of the sequence, V tokens, S positions with the prefix,
D channels. A position counts where its label is not `IGNORED_LABEL`; a row where it is real.
"""

import torch
from torch import Tensor
from torch.nn import functional

from pipeline_lib.params.prr import PrrLossParams
from pipeline_lib.systems.prr.model.batches import IGNORED_LABEL, Batch


def stablemax(logits: Tensor) -> Tensor:
    """Unnormalised probabilities: x + 1 where x >= 0, else 1 / (1 - x).

    Source: Prieto et al. 2025 (arXiv:2501.04697), equation 5.
    """
    # A sum, because the gradient of `where` would be NaN at x = 1.
    return functional.relu(logits) + 1 / (1 - logits.clamp(max=0))


def max_token_logprobs(logits_BKLV: Tensor) -> Tensor:
    """Stablemax log-probability [B, K, L] of the most likely token at each position."""
    weights_BKLV = stablemax(logits_BKLV.float())
    return weights_BKLV.amax(-1).log() - weights_BKLV.sum(-1).log()


def branch_losses(logits_BKLV: Tensor, labels_BL: Tensor) -> Tensor:
    """Mean stablemax cross-entropy [B, K] over the labels of each row; 0 for a row without any."""
    weights_BKLV = stablemax(logits_BKLV.float())
    index_BKL1 = labels_BL[:, None, :, None].expand(-1, weights_BKLV.shape[1], -1, -1)
    chosen_BKL = weights_BKLV.gather(-1, index_BKL1).squeeze(-1)
    entropy_BKL = weights_BKLV.sum(-1).log() - chosen_BKL.log()
    asked_BL = labels_BL != IGNORED_LABEL
    return (entropy_BKL * asked_BL[:, None]).sum(-1) / label_counts(labels_BL)[:, None]


def label_counts(labels_BL: Tensor) -> Tensor:
    """Labels of each row [B], at least 1."""
    return (labels_BL != IGNORED_LABEL).sum(-1).clamp(min=1)


def exact_match(logits_BKLV: Tensor, labels_BL: Tensor) -> Tensor:
    """Bool [B, K]: correct at all labels. Rows without labels count as wrong."""
    asked_B1L = (labels_BL != IGNORED_LABEL)[:, None]
    right_BKL = logits_BKLV.argmax(-1) == labels_BL[:, None]
    return (right_BKL | ~asked_B1L).all(-1) & asked_B1L.any(-1)


def annealed_temperatures(params: PrrLossParams, labels_BL: Tensor, *, progress: float) -> Tensor:
    """Temperatures [B], annealed geometrically over the first ``tau_fraction`` of training."""
    end_B = (
        1 / label_counts(labels_BL)
        if params.tau_end is None
        else torch.full(labels_BL.shape[:1], params.tau_end, device=labels_BL.device)
    )
    return params.tau_start * (end_B / params.tau_start) ** min(1.0, progress / params.tau_fraction)


def responsibilities(losses_BK: Tensor, tau_B: Tensor, *, floor: float) -> Tensor:
    """Detached weights [B, K] of the branches' losses: sum to 1, each at least floor / K."""
    soft_BK = torch.softmax(-losses_BK.detach() / tau_B[:, None], dim=1)
    return (1 - floor) * soft_BK + floor / losses_BK.shape[1]


def best_of_k_loss(losses_BK: Tensor, tau_B: Tensor, params: PrrLossParams) -> Tensor:
    """Best-of-K loss [B]: between the minimum and the mean of the branches' losses."""
    if params.best_of == "responsibility":
        return (responsibilities(losses_BK, tau_B, floor=params.floor) * losses_BK).sum(1)
    # Log of the mean, not the sum: K equal branches then cost as much as one.
    scaled_BK = -losses_BK / tau_B[:, None]
    log_count = torch.log(torch.tensor(float(losses_BK.shape[1]), device=losses_BK.device))
    return -tau_B * (torch.logsumexp(scaled_BK, dim=1) - log_count)


def correctness_loss(scores_BK: Tensor, exact_BK: Tensor) -> Tensor:
    """Binary cross-entropy [B] between scores and exact match, mean over branches."""
    return functional.binary_cross_entropy_with_logits(
        scores_BK, exact_BK.to(scores_BK.dtype), reduction="none"
    ).mean(1)


def ranking_loss(scores_BK: Tensor, losses_BK: Tensor, tau_B: Tensor | None) -> Tensor:
    """Cross-entropy [B] between softmax(scores) and softmax(-losses / tau); shift-invariant.

    Without temperatures the target is the branch of the lowest loss.
    """
    if tau_B is None:
        return functional.cross_entropy(scores_BK, losses_BK.argmin(1), reduction="none")
    target_BK = torch.softmax(-losses_BK.detach() / tau_B[:, None], dim=1)
    return -(target_BK * torch.log_softmax(scores_BK, dim=1)).sum(1)


def diversity_loss(latents_BKSD: Tensor, *, margin: float) -> Tensor:
    """Mean over pairs of branches of max(0, cosine - margin) [B], on latents averaged over S."""
    num_branches = latents_BKSD.shape[1]
    if num_branches == 1:
        return latents_BKSD.new_zeros(len(latents_BKSD), dtype=torch.float32)
    unit_BKD = functional.normalize(latents_BKSD.float().mean(2), dim=-1)
    pairs_2X = torch.triu_indices(num_branches, num_branches, offset=1, device=unit_BKD.device)
    first, second = pairs_2X.unbind(0)
    cosine_BX = (unit_BKD[:, first] * unit_BKD[:, second]).sum(-1)
    return functional.relu(cosine_BX - margin).mean(1)


def mean_over_real(values_B: Tensor, real_B: Tensor) -> Tensor:
    """Mean over real rows; 0 if there is none."""
    return torch.where(real_B, values_B, 0).sum() / real_B.sum().clamp(min=1)


def selection_shares(
    losses_BK: Tensor, scores_BK: Tensor, exact_BK: Tensor, real_B: Tensor
) -> dict[str, Tensor]:
    """Shares of real rows: some branch is right (oracle), the branch of the highest score is, it has the lowest loss.

    ``scorer_picks_best`` is the share of right picks of the rows with right and wrong branches; NaN without such rows.
    """
    picked_B1 = scores_BK.argmax(1, keepdim=True)
    right_B = exact_BK.gather(1, picked_B1).squeeze(1)
    decidable_B = real_B & exact_BK.any(1) & ~exact_BK.all(1)
    lowest_B = picked_B1.squeeze(1) == losses_BK.argmin(1)
    return {
        "oracle_exact": mean_over_real(exact_BK.any(1).float(), real_B),
        "scorer_exact": mean_over_real(right_B.float(), real_B),
        "scorer_picks_best": (right_B & decidable_B).sum() / decidable_B.sum(),
        "scorer_picks_lowest_loss": mean_over_real(lowest_B.float(), real_B),
    }


def total_loss(
    logits_BKLV: Tensor,
    scores_BK: Tensor,
    latents_BKSD: Tensor,
    batch: Batch,
    params: PrrLossParams,
    *,
    progress: float,
) -> tuple[Tensor, dict[str, Tensor]]:
    """The scalar training loss, and its detached parts with shares of rows to log."""
    losses_BK = branch_losses(logits_BKLV, batch.labels_BL)
    exact_BK = exact_match(logits_BKLV.detach(), batch.labels_BL)
    tau_B = annealed_temperatures(params, batch.labels_BL, progress=progress)
    terms = {
        "best_of": best_of_k_loss(losses_BK, tau_B, params),
        "correctness": correctness_loss(scores_BK, exact_BK),
        "ranking": ranking_loss(
            scores_BK,
            losses_BK,
            tau_B.clamp(min=params.ranking_min_tau) if params.ranking_target == "soft" else None,
        ),
        "diversity": diversity_loss(latents_BKSD, margin=params.diversity_margin),
    }
    means = {name: mean_over_real(term_B, batch.real_B) for name, term_B in terms.items()}
    loss = (
        means["best_of"]
        + params.scorer
        * (params.correctness * means["correctness"] + params.ranking * means["ranking"])
        + params.diversity * means["diversity"]
    )
    shown = {
        **selection_shares(losses_BK, scores_BK, exact_BK, batch.real_B),
        "mean_branch_exact": mean_over_real(exact_BK.float().mean(1), batch.real_B),
        "mean_branch_loss": mean_over_real(losses_BK.mean(1), batch.real_B),
        "tau": mean_over_real(tau_B, batch.real_B),
    }
    parts = {name: part.detach() for name, part in (means | shown).items()}
    return loss, parts | {"loss": loss.detach()}


@torch.no_grad()
def branch_demand(
    logits_BKLV: Tensor, batch: Batch, params: PrrLossParams, *, progress: float
) -> dict[str, Tensor]:
    """Load of each of at least two branches per row, for reinitialising unused branches; 0 for padding rows.

    ``saving_BK``: increase of the row's best loss if the branch were removed. ``left_BK``: responsibility without
    floor, times the branch's loss. ``used_BK``: the same, times the row's spread between worst and best loss.
    """
    losses_BK = branch_losses(logits_BKLV, batch.labels_BL)
    tau_B = annealed_temperatures(params, batch.labels_BL, progress=progress)
    least_B2 = losses_BK.topk(2, dim=1, largest=False).values
    least_B1, second_B1 = least_B2[:, :1], least_B2[:, 1:]
    # With two equally good best branches the margin of both is 0.
    others_BK = torch.where(losses_BK == least_B1, second_B1, least_B1)
    weights_BK = responsibilities(losses_BK, tau_B, floor=0)
    loads = {
        "saving_BK": functional.relu(others_BK - losses_BK),
        "left_BK": weights_BK * losses_BK,
        "used_BK": weights_BK * (losses_BK.amax(1, keepdim=True) - least_B1),
    }
    return {name: load_BK * batch.real_B[:, None] for name, load_BK in loads.items()}
