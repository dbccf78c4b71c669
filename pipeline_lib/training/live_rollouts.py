"""Paths of a training step drawn in this process, by the policy that is in training, as it is now.

Nothing is copied: rows are decoded by the embedded engine's scheduler on the very weights that the
optimizer moves, adapters included. A model that the scheduler cannot decode is drawn from by
transformers' own loop, with the same choice of tokens.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pipeline_lib.serving.chat_model import Decoding
from pipeline_lib.serving.decoding.continuous_batch import DrawnToken, SequenceRequest
from pipeline_lib.serving.decoding.decode_pass import is_decodable
from pipeline_lib.serving.decoding.embedded_engine import EmbeddedEngine
from pipeline_lib.training.plain_loop import generated
from pipeline_lib.training.rollouts import DrawnPath, StepRequests

_MOST_ROWS = 512
"""Paths that are decoded together; more make a pass no cheaper, but take memory."""


@dataclass(kw_only=True)
class LiveRollouts:
    """Implements PathSource on the policy in memory.

    A path follows from the weights, the prompt and its seed alone, up to rounding; the same calls at the
    same weights give the same paths bit by bit, on a CPU with the same number of threads.
    """

    decoding: Decoding
    seed: int
    _requests: StepRequests = field(init=False)

    def __post_init__(self) -> None:
        self._requests = StepRequests(seed=self.seed)

    def draw(
        self, prompts: Sequence[str], *, model: Any, tokenizer: Any, step: int
    ) -> list[DrawnPath]:
        """One path for each prompt, from ``model`` as it is at this moment; its mode is left as it was."""
        requests = self._requests.of(prompts, step=step)
        ids = [tokenizer(one.prompt, add_special_tokens=False)["input_ids"] for one in requests]
        places = (
            (tokens, seed) for tokens, one in zip(ids, requests, strict=True) for seed in one.seeds
        )
        rows = [
            SequenceRequest(id=place, prompt_ids=tokens, seed=seed, decoding=self.decoding)
            for place, (tokens, seed) in enumerate(places)
        ]
        # A fresh engine for each draw: where its memory stands is then no matter of what was drawn
        # before, and the loss that follows may have all of it.
        engine = EmbeddedEngine(
            model=model, tokenizer=tokenizer, identity=f"step {step}", batch_size=_MOST_ROWS
        )
        with _evaluated(model):
            drawn = _decoded(engine, rows) if is_decodable(model) else generated(engine, rows)
        return [
            DrawnPath(
                prompt_ids=row.prompt_ids,
                completion_ids=[one.token for one in path],
                logprobs=[one.logprob for one in path],
            )
            for row, path in zip(rows, drawn, strict=True)
        ]


def _decoded(engine: EmbeddedEngine, rows: Sequence[SequenceRequest]) -> list[list[DrawnToken]]:
    """The tokens of each row; ids of rows are their places."""
    drawn: list[list[DrawnToken]] = [[] for _ in rows]
    batch = engine.open_batch()
    batch.add(rows)
    while not batch.idle:
        for one in batch.step():
            drawn[one.id].append(one)
    return drawn


@contextmanager
def _evaluated(model: Any) -> Iterator[None]:
    """Without dropout, and with the cache that gradient checkpointing turns off in training."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
