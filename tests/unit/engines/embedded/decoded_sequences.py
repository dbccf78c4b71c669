"""Sequences for a batch, the tokens that it draws, and those of `model.generate`."""

from collections.abc import Sequence
from typing import Any

import torch

from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.engines.embedded.continuous_batch import (
    ContinuousBatch,
    DrawnToken,
    SequenceRequest,
)

EOS = 1


def batch_of(model: Any, *, max_sequences: int) -> ContinuousBatch:
    return ContinuousBatch(model=model, max_sequences=max_sequences, eos_ids={EOS}, pad_id=0)


def sequence(
    sequence_id: int,
    prompt: Sequence[int],
    *,
    limit: int = 12,
    temperature: float = 0,
    top_p: float = 1,
) -> SequenceRequest:
    decoding = Decoding(temperature=temperature, top_p=top_p, max_new_tokens=limit)
    return SequenceRequest(id=sequence_id, prompt_ids=prompt, seed=sequence_id, decoding=decoding)


def run_until_idle(batch: ContinuousBatch) -> dict[int, list[DrawnToken]]:
    """Steps until the batch is idle; the tokens of each sequence by its id."""
    drawn: dict[int, list[DrawnToken]] = {}
    while not batch.idle:
        for one in batch.step():
            drawn.setdefault(one.id, []).append(one)
    return drawn


def tokens_of(drawn: dict[int, list[DrawnToken]]) -> dict[int, list[int]]:
    return {sequence_id: [one.token for one in path] for sequence_id, path in drawn.items()}


def generate_greedy(model: Any, request: SequenceRequest) -> list[int]:
    """The greedy continuation of one prompt by transformers' `generate`."""
    ids = torch.tensor([list(request.prompt_ids)])
    drawn = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=request.decoding.max_new_tokens,
        eos_token_id=EOS,
        pad_token_id=0,
    )
    tokens: list[int] = drawn[0, ids.shape[1] :].tolist()
    return tokens
