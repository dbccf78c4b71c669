"""Self-certainty of finished texts: one teacher-forced forward pass of the policy.

Texts are tokenized again, so special tokens within a path and splits that differ from the
tokenizer's are lost.

Axes: B texts of a batch, L positions, V vocabulary.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from pipeline_lib.engines.chat_model import ScoredText, TextScore
from pipeline_lib.engines.tokens import encode_completion, encode_prompt

_MAX_LOGITS = 1 << 25
"""Logits of one batch: 128 MiB in float32. A single text may need more."""


_Row = tuple[list[int], int]
"""Tokens of prompt and text, and the index of the text's first token; the prompt has at least one."""


def self_certainty(logits_LV: torch.Tensor) -> torch.Tensor:
    """Divergence of the uniform distribution from each next-token distribution: [L], in nats.

    KL(U || p) = -log V - mean_v log p_v; with log p = logits - logsumexp that is
    logsumexp - mean - log V. It is 0 where all tokens are equally likely.

    Source: Kang et al. 2025, arXiv:2502.18581.
    """
    logits_LV = logits_LV.double()
    return logits_LV.logsumexp(-1) - logits_LV.mean(-1) - math.log(logits_LV.shape[-1])


@dataclass(frozen=True, kw_only=True)
class PolicyScorer:
    """Implements Scorer on a model in this process."""

    model: Any
    tokenizer: Any

    def score(self, texts: Sequence[ScoredText]) -> list[TextScore]:
        """One score per text, in order; a text without a token has certainty 0."""
        # As in the embedded engine: another number of threads rounds differently.
        torch.set_num_threads(1)
        rows = [self._row(one) for one in texts]
        order = sorted(range(len(rows)), key=lambda place: len(rows[place][0]))
        scores: dict[int, TextScore] = {}
        for places in self._batches(rows, order):
            found = self._score_batch([rows[place] for place in places])
            scores.update(zip(places, found, strict=True))
        return [scores[place] for place in range(len(rows))]

    def _row(self, one: ScoredText) -> _Row:
        prompt = encode_prompt(self.tokenizer, one.prompt)
        text = encode_completion(self.tokenizer, one.text)
        end = [self.tokenizer.eos_token_id] if one.ended else []
        return [*prompt, *text, *end], len(prompt)

    def _batches(self, rows: Sequence[_Row], order: Sequence[int]) -> list[list[int]]:
        """Texts of similar length together, up to `_MAX_LOGITS`."""
        batches: list[list[int]] = []
        vocabulary = self.model.config.get_text_config().vocab_size
        for place in order:
            numbers = len(rows[place][0]) * vocabulary
            if batches and (len(batches[-1]) + 1) * numbers <= _MAX_LOGITS:
                batches[-1].append(place)
            else:
                batches.append([place])
        return batches

    @torch.inference_mode()
    def _score_batch(self, rows: Sequence[_Row]) -> list[TextScore]:
        longest = max(len(tokens) for tokens, _ in rows)
        pad = self.tokenizer.pad_token_id or 0
        padded = [[*tokens, *[pad] * (longest - len(tokens))] for tokens, _ in rows]
        ids_BL = torch.tensor(padded, device=self.model.device)
        # Padding on the right does not affect a causal model.
        logits_BLV = self.model(input_ids=ids_BL, use_cache=False).logits
        scores = []
        for (tokens, start), logits_LV in zip(rows, logits_BLV, strict=True):
            # The logits at a position predict the next token.
            own_LV = logits_LV[start - 1 : len(tokens) - 1]
            certainty = float(self_certainty(own_LV).mean()) if len(own_LV) else 0.0
            scores.append(TextScore(self_certainty=certainty, read_tokens=len(tokens)))
        return scores
