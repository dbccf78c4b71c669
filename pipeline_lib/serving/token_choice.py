"""Which token comes next: inverse-transform sampling from one uniform number a row.

Axes: B rows, V vocabulary.
"""

import torch

from pipeline_lib.serving.chat_model import Decoding


def choose_tokens(
    logits_BV: torch.Tensor, uniforms_B: torch.Tensor, decoding: Decoding
) -> torch.Tensor:
    """Inverse-transform sampling: token ids [B] from one uniform number in [0, 1) a row.

    Temperature 0 takes the most likely token. Top-p keeps the smallest set of most likely tokens
    whose mass reaches p (the one that crosses p included), as is usual.
    """
    if decoding.temperature == 0:
        return logits_BV.argmax(-1)
    # In float64, since a sum over a large vocabulary in float32 shifts rare tokens.
    probs_BV = (logits_BV.double() / decoding.temperature).softmax(-1)
    if decoding.top_p < 1:
        sorted_BV, order_BV = probs_BV.sort(descending=True, stable=True)
        before_BV = sorted_BV.cumsum(-1) - sorted_BV
        sorted_BV = sorted_BV.masked_fill(before_BV >= decoding.top_p, 0)
        probs_BV = torch.zeros_like(probs_BV).scatter(-1, order_BV, sorted_BV)
    cumulative_BV = probs_BV.cumsum(-1)
    points_B1 = uniforms_B[:, None] * cumulative_BV[:, -1:]
    # right=True finds the first token whose cumulative mass exceeds the point: never one of mass 0.
    chosen_B = torch.searchsorted(cumulative_BV, points_B1, right=True)[:, 0]
    return chosen_B.clamp(max=logits_BV.shape[-1] - 1)
