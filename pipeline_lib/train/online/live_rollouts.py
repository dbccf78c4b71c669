"""Paths of a training step drawn in this process, from the weights in training.

The embedded engine's scheduler decodes on the weights that the optimizer updates, adapters included.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.engines.embedded.continuous_batch import DrawnToken, SequenceRequest
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.engines.tokens import encode_prompt
from pipeline_lib.train.online.rollouts import DrawnPath, StepRequests

_MAX_SEQUENCES = 512
"""Sequences that are decoded together; more take memory and make a pass no cheaper."""


@dataclass(kw_only=True)
class LiveRollouts:
    """Paths from the policy in memory. Implements PathSource.

    A path depends on the weights, the prompt and its seed, up to rounding. The same calls with the same
    weights give the same paths bit by bit on a CPU with the same number of threads.
    """

    decoding: Decoding
    seed: int
    _requests: StepRequests = field(init=False)

    def __post_init__(self) -> None:
        self._requests = StepRequests(seed=self.seed)

    def draw(
        self, prompts: Sequence[str], *, model: Any, tokenizer: Any, step: int
    ) -> list[DrawnPath]:
        """One path for each prompt, from the present weights of ``model``; its mode is restored.

        Raises:
            BadInputError: the engine cannot decode this kind of model.
        """
        requests = self._requests.make(prompts, step=step)
        ids = [encode_prompt(tokenizer, one.prompt) for one in requests]
        places = (
            (tokens, seed) for tokens, one in zip(ids, requests, strict=True) for seed in one.seeds
        )
        rows = [
            SequenceRequest(id=place, prompt_ids=tokens, seed=seed, decoding=self.decoding)
            for place, (tokens, seed) in enumerate(places)
        ]
        # A new engine for each draw: its memory layout does not depend on earlier draws, and is free
        # for the loss that follows.
        engine = EmbeddedEngine(
            model=model, tokenizer=tokenizer, identity=f"step {step}", batch_size=_MAX_SEQUENCES
        )
        with eval_mode(model), rounded_weights(model, enabled=model.device.type == "cuda"):
            drawn = _decode_sequences(engine, rows)
        return [
            DrawnPath(
                prompt_ids=row.prompt_ids,
                completion_ids=[one.token for one in path],
                logprobs=[one.logprob for one in path],
            )
            for row, path in zip(rows, drawn, strict=True)
        ]


def _decode_sequences(
    engine: EmbeddedEngine, rows: Sequence[SequenceRequest]
) -> list[list[DrawnToken]]:
    """The tokens of each sequence; the id of a sequence is its index."""
    drawn: list[list[DrawnToken]] = [[] for _ in rows]
    batch = engine.open_batch()
    batch.add(rows)
    while not batch.idle:
        for one in batch.step():
            drawn[one.id].append(one)
    return drawn


@contextmanager
def rounded_weights(model: Any, *, enabled: bool) -> Iterator[None]:
    """If enabled, hold a model of float32 weights in bfloat16 inside of the block, as an engine on a GPU does.

    Autocast would convert every weight at every token.
    """
    if not enabled or model.dtype is not torch.float32:
        yield
        return
    trained = [
        (owner, name, weight)
        for owner in model.modules()
        for name, weight in owner.named_parameters(recurse=False)
    ]
    rounded = {
        weight: torch.nn.Parameter(weight.detach().bfloat16(), requires_grad=False)
        for _, _, weight in trained
    }
    for owner, name, weight in trained:
        setattr(owner, name, rounded[weight])
    try:
        yield
    finally:
        for owner, name, weight in trained:
            setattr(owner, name, weight)


@contextmanager
def eval_mode(model: Any) -> Iterator[None]:
    """Disable dropout, and enable the cache, which gradient checkpointing turns off in training."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
