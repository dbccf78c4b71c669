"""Which token comes next: inverse-transform sampling from one uniform number a row.

Axes: B rows, V vocabulary, K most likely tokens.
"""

import torch

from pipeline_lib.serving.chat_model import Decoding

_AT_ONCE = 1 << 22
"""Numbers of a table of float64 that are worked on together: 32 MiB."""
_LIKELY = 128
"""How many tokens are looked at first for a nucleus: sorting a whole vocabulary is slow."""


def choose_tokens(
    logits_BV: torch.Tensor, uniforms_B: torch.Tensor, decoding: Decoding
) -> torch.Tensor:
    """Token ids [B] from one uniform number in [0, 1) a row.

    Temperature 0 takes the most likely token. Top-p keeps the smallest set of most likely tokens
    whose mass reaches p (the one that crosses p included), as is usual.
    """
    if decoding.temperature == 0:
        return logits_BV.argmax(-1)
    # In float64, since a sum over a large vocabulary in float32 shifts rare tokens.
    scaled_BV = logits_BV.to(torch.float64, copy=True)
    if decoding.temperature != 1:
        scaled_BV /= decoding.temperature
    weights_BV = scaled_BV.sub_(scaled_BV.amax(-1, keepdim=True)).exp_()
    if decoding.top_p < 1:
        weights_BV = _nucleus(weights_BV, decoding.top_p)
    cumulative_BV = weights_BV.cumsum_(-1)
    points_B1 = uniforms_B[:, None] * cumulative_BV[:, -1:]
    # right=True finds the first token whose cumulative mass exceeds the point: never one of mass 0.
    chosen_B = torch.searchsorted(cumulative_BV, points_B1, right=True)[:, 0]
    return chosen_B.clamp(max=logits_BV.shape[-1] - 1)


def draw_tokens(
    logits_BV: torch.Tensor, uniforms_B: torch.Tensor, decoding: Decoding
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids [B], and their natural-log probabilities [B] before temperature and top-p."""
    rows = max(1, _AT_ONCE // logits_BV.shape[-1])
    chosen, logprobs = [], []
    for logits, uniforms in zip(
        torch.split(logits_BV, rows), torch.split(uniforms_B, rows), strict=True
    ):
        chosen.append(choose_tokens(logits, uniforms, decoding))
        own = logits.gather(-1, chosen[-1][:, None])[:, 0]
        logprobs.append(own.double() - logits.logsumexp(-1))
    return torch.cat(chosen), torch.cat(logprobs)


def _nucleus(weights_BV: torch.Tensor, top_p: float) -> torch.Tensor:
    """The weights with 0 for every token outside the nucleus.

    Among equally likely tokens those of lower id come first.
    """
    total_B1 = weights_BV.sum(-1, keepdim=True)
    count = min(_LIKELY, weights_BV.shape[-1])
    likely_BK = weights_BV.topk(count).values
    if (likely_BK.sum(-1, keepdim=True) < top_p * total_B1).any():
        likely_BK = weights_BV.sort(descending=True).values
    before_BK = likely_BK.cumsum(-1) - likely_BK
    # At least one, since no comparison with a not-a-number holds.
    size_B1 = (before_BK < top_p * total_B1).sum(-1, keepdim=True).clamp(min=1)
    least_B1 = likely_BK.gather(-1, size_B1 - 1)
    kept_BV = weights_BV.masked_fill(weights_BV < least_B1, 0)
    # Of tokens that are as likely as the last one, only as many as it takes.
    equal_BV = weights_BV == least_B1
    wanted_B1 = size_B1 - (weights_BV > least_B1).sum(-1, keepdim=True)
    if (equal_BV.sum(-1, keepdim=True) > wanted_B1).any():
        kept_BV.masked_fill_(equal_BV & (equal_BV.cumsum(-1) > wanted_B1), 0)
    return kept_BV
