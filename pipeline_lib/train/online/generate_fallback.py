"""Sequences sampled by transformers' `generate`, for models that the embedded engine cannot decode.

State-space models and their hybrids have more state than keys and values. Tokens are still sampled as in
the engine, with one seed per row, so that a resumed training draws what an unbroken one draws.

Axes: B rows, L positions of the longest prompt, V vocabulary.
"""

from collections.abc import Sequence

import numpy as np
import torch
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList
from typing_extensions import override

from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.engines.embedded.sequence_table import DrawnToken, SequenceRequest, SequenceTable


class _SeededSampler(LogitsProcessor):
    """Samples a token for each row, and masks all others."""

    def __init__(self, rows: Sequence[SequenceRequest], eos_ids: frozenset[int]) -> None:
        self._table = SequenceTable(len(rows), eos_ids)
        self._slots_B = np.array([self._table.assign(row, cached_tokens=0) for row in rows])
        self.drawn: list[list[DrawnToken]] = [[] for _ in rows]

    @override
    def __call__(self, _ids: torch.LongTensor, logits_BV: torch.FloatTensor) -> torch.FloatTensor:
        tokens, _ = self._table.draw(self._slots_B, logits_BV)
        for path, one in zip(self.drawn, tokens, strict=True):
            # `generate` continues finished rows until the longest ends; those tokens are dropped.
            if not path or path[-1].finished is None:
                path.append(one)
        chosen_B1 = torch.tensor([[one.token] for one in tokens], device=logits_BV.device)
        return torch.full_like(logits_BV, -torch.inf).scatter_(1, chosen_B1, 0)  # type: ignore[return-value]


def generate_sequences(
    engine: EmbeddedEngine, rows: Sequence[SequenceRequest]
) -> list[list[DrawnToken]]:
    """The tokens of each sequence; all are sampled together, with one length limit."""
    longest = max(len(row.prompt_ids) for row in rows)
    pad = engine.tokenizer.pad_token_id or 0
    padding = [longest - len(row.prompt_ids) for row in rows]
    ids_BL = [[pad] * gap + list(row.prompt_ids) for gap, row in zip(padding, rows, strict=True)]
    seen_BL = [[0] * gap + [1] * (longest - gap) for gap in padding]
    sampler = _SeededSampler(rows, engine.eos_ids)
    # Penalties are explicit, since `generate` takes missing ones from the model's own config.
    config = GenerationConfig(  # type: ignore[no-untyped-call]
        do_sample=False,
        max_new_tokens=max(row.decoding.max_new_tokens for row in rows),
        eos_token_id=sorted(engine.eos_ids),
        pad_token_id=pad,
        repetition_penalty=1.0,
        no_repeat_ngram_size=0,
    )
    engine.model.generate(
        torch.tensor(ids_BL, device=engine.model.device),
        attention_mask=torch.tensor(seen_BL, device=engine.model.device),
        generation_config=config,
        logits_processor=LogitsProcessorList([sampler]),
    )
    return sampler.drawn
