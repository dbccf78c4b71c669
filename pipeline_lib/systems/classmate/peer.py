"""The seam between the reward and the peers: frozen models that continue a prefix of a chain."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pipeline_lib.engines.chat_model import Completion, Decoding
from pipeline_lib.records import Problem

BODY = "pipeline_lib.systems.classmate.body"
"""The module that peers run in their processes: its code is in the keys of what depends on their text."""
NO_ROOM = "no room in the context: "
"""Beginning of the reason of a continuation that the peer cannot draw by any further call."""


class PeerFailedError(Exception):
    """A peer gave no answer: it is dead, past its deadline or cannot load. The message is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A prefix to continue. The peer renders the problem by its own chat template and tokenizer."""

    problem: Problem
    prefix: str
    """Beginning of the assistant's turn, as text; may be empty."""
    seeds: tuple[int, ...]
    """One continuation each."""


class Peer(Protocol):
    """A frozen model that continues prefixes."""

    @property
    def name(self) -> str:
        """Its name in figures and reports."""
        ...

    @property
    def identity(self) -> str:
        """Digest of model, engine and settings; part of the key of a training."""
        ...

    def answer(
        self, questions: Sequence[Question], decoding: Decoding, *, timeout_s: float
    ) -> list[list[Completion]]:
        """Continuations of each question, in the order of its seeds, without their prefixes.

        A continuation that could not be drawn has `FinishReason.ERROR` and a reason.

        Raises:
            PeerFailedError: there is no answer within ``timeout_s`` seconds; the peer starts again for
                the next call.
        """
        ...
