"""A peer in this process, of a real model."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeline_lib.engines.chat_model import Completion, Decoding
from pipeline_lib.systems.classmate.body import PeerBody
from pipeline_lib.systems.classmate.peer import Question


@dataclass(slots=True, kw_only=True)
class EmbeddedPeer:
    """Implements Peer."""

    name: str
    body: PeerBody
    num_calls: int = field(default=0, init=False)

    @property
    def identity(self) -> str:
        """Of the model."""
        return self.body.engine.identity

    def answer(
        self, questions: Sequence[Question], decoding: Decoding, *, timeout_s: float
    ) -> list[list[Completion]]:
        """Continuations by the model."""
        assert timeout_s > 0
        self.num_calls += 1
        return self.body.answer(questions, decoding)
