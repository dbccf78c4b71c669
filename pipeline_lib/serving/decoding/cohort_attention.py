"""Attention of one new token a row over cohorts of rows, each with its own window of columns.

transformers hands attention to functions that are registered by name. Ours gets the cohorts of the
step as the keyword ``cohorts`` of the model's call; without it, it is plain sdpa, so a model that is
set to it can be used as before.

Axes: B rows of all cohorts in order, Q query heads, H key-value heads, D channels, R rows of one
cohort, G query heads that share a key-value head, C columns.
"""

from collections.abc import Sequence
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from pipeline_lib.serving.decoding.cohorts import Cohort

NAME = "reasonloop_cohorts"

# What models hand to attention that changes nothing for one new token over all that is kept.
_WITHOUT_EFFECT = frozenset(
    {"dropout", "is_causal", "position_ids", "use_cache", "cache_position", "sliding_window"}
)


class NotPlainError(Exception):
    """The model's attention does more than score, softmax and sum."""


def _attention(  # noqa: PLR0913 - transformers' signature
    module: Any,
    query_BQ1D: torch.Tensor,
    key_BH1D: torch.Tensor,
    value_BH1D: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float | None = None,
    cohorts: Sequence[Cohort] | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """What transformers calls: output [B, 1, Q, D]."""
    if cohorts is None:
        output, _ = sdpa_attention_forward(
            module,
            query_BQ1D,
            key_BH1D,
            value_BH1D,
            attention_mask,
            scaling=scaling,
            **options,
        )
        return output, None
    unknown = [
        name
        for name, value in options.items()
        if value is not None and value is not False and name not in _WITHOUT_EFFECT
    ]
    kept = cohorts[0].block.keys[module.layer_idx].shape[1::2]
    if unknown or attention_mask is not None or key_BH1D.shape[1:] != (kept[0], 1, kept[1]):
        raise NotPlainError(f"options {unknown}, keys {tuple(key_BH1D.shape[1:])}, kept {kept}")
    if scaling is None:
        scaling = query_BQ1D.shape[-1] ** -0.5
    output_BQD = attend(
        cohorts,
        layer=module.layer_idx,
        query_BQD=query_BQ1D[:, :, 0] * scaling,
        key_BHD=key_BH1D[:, :, 0],
        value_BHD=value_BH1D[:, :, 0],
    )
    return output_BQD[:, None], None


def attend(
    cohorts: Sequence[Cohort],
    *,
    layer: int,
    query_BQD: torch.Tensor,
    key_BHD: torch.Tensor,
    value_BHD: torch.Tensor,
) -> torch.Tensor:
    """Write the new keys and values at each cohort's ``length``, and attend to all up to there.

    That column is not hidden any more.
    """
    heads = key_BHD.shape[1]
    group = query_BQD.shape[1] // heads
    output_BQD = query_BQD.new_empty(*query_BQD.shape[:2], value_BHD.shape[-1])
    row = 0
    for cohort in cohorts:
        rows = slice(row, row + cohort.size)
        row = rows.stop
        keys_RHCD = cohort.block.keys[layer][: cohort.size]
        values_RHCD = cohort.block.values[layer][: cohort.size]
        keys_RHCD[:, :, cohort.length] = key_BHD[rows]
        values_RHCD[:, :, cohort.length] = value_BHD[rows]
        # Rows and heads are one axis: bmm reads such a view in place, matmul would copy it. Empty
        # columns are read and hidden: leaving them out breaks the stream, which costs far more.
        together = cohort.size * heads
        scores = torch.baddbmm(
            cohort.hidden_RHC[: cohort.size].view(together, 1, -1),
            query_BQD[rows].reshape(together, group, -1),
            keys_RHCD.flatten(0, 1).mT,
        )
        weights = scores.softmax(-1, dtype=torch.float32).to(scores.dtype)
        torch.bmm(
            weights,
            values_RHCD.flatten(0, 1),
            out=output_BQD[rows].view(together, group, -1),
        )
    return output_BQD


AttentionInterface.register(NAME, _attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
