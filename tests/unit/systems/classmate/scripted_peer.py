"""A peer that answers by a function, and remembers what it was asked."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.lib.scripted import ScriptedModel
from pipeline_lib.engines.chat_model import Completion, Decoding, Request
from pipeline_lib.systems.classmate.peer import Question


@dataclass(slots=True, kw_only=True)
class ScriptedPeer:
    """Implements Peer. ``write(prefix, seed)`` gives a continuation; None: it could not be drawn."""

    name: str
    write: Callable[[str, int], str | None]
    identity: str = "scripted"
    calls: list[list[Question]] = field(default_factory=list)

    def answer(
        self, questions: Sequence[Question], decoding: Decoding, *, timeout_s: float
    ) -> list[list[Completion]]:
        """Continuations by ``write``."""
        assert timeout_s > 0
        self.calls.append(list(questions))
        model = ScriptedModel(answer=self.write)
        requests = [Request(prompt=one.prefix, seeds=one.seeds) for one in questions]
        return model.complete(requests, decoding)
