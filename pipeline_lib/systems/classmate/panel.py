"""The panel of peers: all are asked at once, each in a thread of its own, under one deadline.

Of a peer that fails or misses the deadline, every continuation is a failed one with the reason.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field

from pipeline_lib.engines.chat_model import Completion, Decoding
from pipeline_lib.params.classmate import ClassmateParams
from pipeline_lib.systems.classmate.peer import Peer, PeerFailedError, Question

_GRACE_S = 2.0
"""After the deadline, for a peer that reports its own failure at the deadline."""

Answers = list[list[Completion]]
"""Continuations of each question, in the order of its seeds."""


@dataclass(slots=True, kw_only=True)
class Panel:
    """The peers of a training or an evaluation, with distinct names.

    Calls to one peer run one after another, in the order of `ask`.
    """

    peers: Sequence[Peer]
    decoding: Decoding
    timeout_s: float
    """From `ask` to the last answer."""
    _last: dict[str, "Future[Answers]"] = field(default_factory=dict, init=False)

    def ask(self, questions: Mapping[str, Sequence[Question]]) -> "Asked":
        """Start asking each peer its questions, by name, and return at once."""
        deadline = time.perf_counter() + self.timeout_s
        calls = {peer.name: self._call(peer, questions[peer.name], deadline) for peer in self.peers}
        return Asked(questions=questions, deadline=deadline, calls=calls)

    def _call(
        self, peer: Peer, questions: Sequence[Question], deadline: float
    ) -> "Future[Answers]":
        before = self._last.get(peer.name)
        answers: Future[Answers] = Future()
        self._last[peer.name] = answers

        def run() -> None:
            try:
                answers.set_result(self._answer(peer, questions, before, deadline))
            except BaseException as error:  # noqa: BLE001 - it is raised in the thread that waits
                answers.set_exception(error)

        # A daemon, since a peer that hangs must not keep the process from ending.
        threading.Thread(target=run, name=f"peer-{peer.name}", daemon=True).start()
        return answers

    def _answer(
        self,
        peer: Peer,
        questions: Sequence[Question],
        before: "Future[Answers] | None",
        deadline: float,
    ) -> Answers:
        if not questions:
            return []
        if before is not None:
            wait([before], timeout=max(0.0, deadline - time.perf_counter()))
        remaining_s = deadline - time.perf_counter()
        if remaining_s <= 0:
            raise PeerFailedError("busy with an earlier call until the deadline")
        return peer.answer(questions, self.decoding, timeout_s=remaining_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Questions that peers are answering."""

    questions: Mapping[str, Sequence[Question]]
    deadline: float
    calls: "Mapping[str, Future[Answers]]"

    def answers(self) -> dict[str, Answers]:
        """The answers of each peer, by name, at the latest shortly after the deadline.

        An exception of a peer other than `PeerFailedError` is raised here.
        """
        return {name: self._answers(name) for name in self.calls}

    def _answers(self, name: str) -> Answers:
        call = self.calls[name]
        wait([call], timeout=max(0.0, self.deadline + _GRACE_S - time.perf_counter()))
        if not call.done():
            return _failed(self.questions[name], "no answer within the deadline")
        if isinstance(failure := call.exception(), PeerFailedError):
            return _failed(self.questions[name], str(failure))
        return call.result()


def _failed(questions: Sequence[Question], reason: str) -> Answers:
    return [[Completion.failed(reason)] * len(question.seeds) for question in questions]


def open_panel(peers: Sequence[Peer], params: ClassmateParams) -> Panel:
    """The panel of ``peers`` with the decoding and the deadline of ``params``."""
    return Panel(peers=peers, decoding=decoding_of(params), timeout_s=params.timeout_s)


def decoding_of(params: ClassmateParams) -> Decoding:
    """The decoding of continuations."""
    return Decoding(
        temperature=params.temperature if params.do_sample else 0.0,
        top_p=params.top_p,
        max_new_tokens=params.max_new_tokens,
    )
