"""Next-token sampling by inverse transform, from one uniform number per sequence.

Axes: B sequences, V vocabulary, K most likely tokens.
"""

import torch

from pipeline_lib.determinism import permit_float_sums
from pipeline_lib.engines.chat_model import Decoding

_CHUNK_NUMBERS = 1 << 22
"""Float64 numbers of one chunk of logits: 32 MiB."""
_NUCLEUS_FIRST_K = 128
"""The nucleus is sought among these most likely tokens first; sorting a vocabulary is slow."""


def sample_tokens(
    logits_BV: torch.Tensor, uniforms_B: torch.Tensor, decoding: Decoding
) -> torch.Tensor:
    """Token ids [B] from one uniform number in [0, 1) a sequence.

    Temperature 0 takes the most likely token. Top-p keeps the smallest set of most likely tokens
    whose mass reaches p, the one that crosses p included.

    Source: Holtzman et al. 2020, arXiv:1904.09751 (nucleus sampling).
    """
    if decoding.temperature == 0:
        return logits_BV.argmax(-1)
    # Float64: a cumulative sum over a large vocabulary in float32 shifts rare tokens.
    scaled_BV = logits_BV.to(torch.float64, copy=True)
    if decoding.temperature != 1:
        scaled_BV /= decoding.temperature
    weights_BV = scaled_BV.sub_(scaled_BV.amax(-1, keepdim=True)).exp_()
    if decoding.top_p < 1:
        weights_BV = _truncate_to_nucleus(weights_BV, decoding.top_p)
    with permit_float_sums():
        cumulative_BV = weights_BV.cumsum_(-1)
    points_B1 = uniforms_B[:, None] * cumulative_BV[:, -1:]
    # right=True finds the first token whose cumulative mass exceeds the point: never one of mass 0.
    tokens_B = torch.searchsorted(cumulative_BV, points_B1, right=True)[:, 0]
    return tokens_B.clamp(max=logits_BV.shape[-1] - 1)


def sample_with_logprobs(
    logits_BV: torch.Tensor, uniforms_B: torch.Tensor, decoding: Decoding
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids [B], and their natural-log probabilities [B] before temperature and top-p."""
    chunk = max(1, _CHUNK_NUMBERS // logits_BV.shape[-1])
    tokens, logprobs = [], []
    for logits, uniforms in zip(
        torch.split(logits_BV, chunk), torch.split(uniforms_B, chunk), strict=True
    ):
        tokens.append(sample_tokens(logits, uniforms, decoding))
        selected = logits.gather(-1, tokens[-1][:, None])[:, 0]
        logprobs.append(selected.double() - logits.logsumexp(-1))
    return torch.cat(tokens), torch.cat(logprobs)


def _truncate_to_nucleus(weights_BV: torch.Tensor, top_p: float) -> torch.Tensor:
    """The weights with 0 for every token outside the nucleus; ties keep the lower token ids."""
    total_B1 = weights_BV.sum(-1, keepdim=True)
    count = min(_NUCLEUS_FIRST_K, weights_BV.shape[-1])
    likely_BK = weights_BV.topk(count).values
    if (likely_BK.sum(-1, keepdim=True) < top_p * total_B1).any():
        likely_BK = weights_BV.sort(descending=True).values
    with permit_float_sums():
        reached_BK = likely_BK.cumsum(-1)
    before_BK = reached_BK - likely_BK
    # At least one: no comparison with NaN holds.
    size_B1 = (before_BK < top_p * total_B1).sum(-1, keepdim=True).clamp(min=1)
    least_B1 = likely_BK.gather(-1, size_B1 - 1)
    kept_BV = weights_BV.masked_fill(weights_BV < least_B1, 0)
    # Of the tokens tied with the last one, only the number that the nucleus needs.
    tied_BV = weights_BV == least_B1
    wanted_B1 = size_B1 - (weights_BV > least_B1).sum(-1, keepdim=True)
    if (tied_BV.sum(-1, keepdim=True) > wanted_B1).any():
        kept_BV.masked_fill_(tied_BV & (tied_BV.cumsum(-1) > wanted_B1), 0)
    return kept_BV
