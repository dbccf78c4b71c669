"""A peer in this process, of a real model."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeline_lib.classmate.body import PeerBody
from pipeline_lib.classmate.peer import Question
from pipeline_lib.serving.chat_model import Completion, Decoding


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
