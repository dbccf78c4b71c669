"""Attention of one new token per sequence over cohorts, each with its own rectangle of columns.

transformers calls attention functions that are registered by name. This one gets the cohorts of the
step as the keyword ``cohorts`` of the model's call. Without it, it is plain sdpa, so that a model
set to it works as before.

Axes: B sequences of all cohorts in order, Q query heads, H key-value heads, D channels, R rows of
one cohort, G query heads of one key-value head, C columns.
"""

from collections.abc import Sequence
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from pipeline_lib.engines.embedded.cohorts import Cohort

NAME = "reasonloop_cohorts"

# Options that do not affect one new token which attends to everything in the cache.
_WITHOUT_EFFECT = frozenset(
    {"dropout", "is_causal", "position_ids", "use_cache", "cache_position", "sliding_window"}
)


class UnsupportedAttentionError(Exception):
    """The model's attention is more than scaled scores, softmax and weighted sum."""


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
    """The function that transformers calls: output [B, 1, Q, D]."""
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
        raise UnsupportedAttentionError(
            f"options {unknown}, keys {tuple(key_BH1D.shape[1:])}, kept {kept}"
        )
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
    """Write keys and values to column ``length`` of each cohort, and attend up to it: [B, Q, D].

    The mask must already admit that column. Queries are scaled.
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
        # Rows and heads as one axis: bmm reads such a view in place, matmul would copy it. Masked
        # columns are read, too: skipping them breaks the contiguous read, which costs far more.
        rows_heads = cohort.size * heads
        scores = torch.baddbmm(
            cohort.mask_RHC[: cohort.size].view(rows_heads, 1, -1),
            query_BQD[rows].reshape(rows_heads, group, -1),
            keys_RHCD.flatten(0, 1).mT,
        )
        weights = scores.softmax(-1, dtype=torch.float32).to(scores.dtype)
        torch.bmm(
            weights,
            values_RHCD.flatten(0, 1),
            out=output_BQD[rows].view(rows_heads, group, -1),
        )
    return output_BQD


AttentionInterface.register(NAME, _attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
