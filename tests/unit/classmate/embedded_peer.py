"""A peer in this process, of a real model."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeline_lib.classmate.peer import Question
from pipeline_lib.sampling.prompts import render
from pipeline_lib.serving.chat_model import Completion, Decoding, Request
from pipeline_lib.serving.decoding.embedded_engine import EmbeddedEngine


@dataclass(slots=True, kw_only=True)
class EmbeddedPeer:
    """Implements Peer."""

    name: str
    engine: EmbeddedEngine
    num_calls: int = field(default=0, init=False)

    @property
    def identity(self) -> str:
        """Of the model."""
        return self.engine.identity

    def answer(
        self, questions: Sequence[Question], decoding: Decoding, *, timeout_s: float
    ) -> list[list[Completion]]:
        """Continuations by the model."""
        assert timeout_s > 0
        self.num_calls += 1
        requests = [
            Request(
                prompt=render(one.problem, self.engine.chat_format) + one.prefix, seeds=one.seeds
            )
            for one in questions
        ]
        return self.engine.complete(requests, decoding)
