"""Peers, frozen models that continue a prefix of a chain: all are asked at once under one deadline.

Prefix and continuation are one text, judged strictly as the actor's paths are.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Protocol

from pipeline_lib.engines.chat_model import Completion, Decoding
from pipeline_lib.params.classmate import ClassmateParams
from pipeline_lib.records import Problem
from pipeline_lib.verdicts import Verdict
from pipeline_lib.verify.dispatch import Item, Verifier

HELD_OUT, TRAINING = "held-out peer", "training peer"
"""Measures: success of a peer that no training asked, and of one that the training asked."""
_SHOWN_REASONS = 4
_GRACE_S = 2.0
"""After the deadline, for a peer that reports its own failure at the deadline."""
PEER_ENGINE = "pipeline_lib.systems.classmate.peer_engine"
"""The module that peers run in their processes: its code is in the keys of what depends on their text."""
NO_ROOM = "no room in the context: "
"""Beginning of the reason of a continuation that the peer cannot draw by any further call."""


Answers = list[list[Completion]]
"""Continuations of each question, in the order of its seeds."""


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

    @property
    def identity(self) -> str:
        """Digest of model, engine and settings; part of the key of a training."""

    def answer(
        self, questions: Sequence[Question], decoding: Decoding, *, timeout_s: float
    ) -> Answers:
        """Continuations of each question, in the order of its seeds, without their prefixes.

        A continuation that could not be drawn has `FinishReason.ERROR` and a reason.

        Raises:
            PeerFailedError: there is no answer within ``timeout_s`` seconds; the peer starts again for
                the next call.
        """


class Peers:
    """The peers of a training or an evaluation, with distinct names; calls to one peer run one after another.

    Of a peer that fails or misses the deadline, every continuation is a failed one with the reason.
    """

    def __init__(self, peers: Sequence[Peer], params: ClassmateParams) -> None:
        self.names = [peer.name for peer in peers]
        self._peers = peers
        self._decoding = decoding_of(params)
        self._timeout_s = params.timeout_s
        self._last: dict[str, Future[Answers]] = {}

    def ask(self, questions: Mapping[str, Sequence[Question]]) -> Callable[[], dict[str, Answers]]:
        """Start asking each peer its questions, by name, and return at once what waits for their answers.

        It waits until shortly after the deadline, and raises an exception of a peer that is no `PeerFailedError`.
        """
        deadline = time.perf_counter() + self._timeout_s
        calls = {one.name: self._call(one, questions[one.name], deadline) for one in self._peers}

        def answers(name: str) -> Answers:
            wait([calls[name]], timeout=max(0.0, deadline + _GRACE_S - time.perf_counter()))
            if calls[name].done():
                return calls[name].result()
            return failed_answers(questions[name], "no answer within the deadline")

        return lambda: {name: answers(name) for name in calls}

    def _call(self, peer: Peer, questions: Sequence[Question], deadline: float) -> Future[Answers]:
        call: Future[Answers] = Future()
        if not questions:
            call.set_result([])
            return call
        before, self._last[peer.name] = self._last.get(peer.name), call

        def run() -> None:
            try:
                if before is not None:
                    wait([before], timeout=max(0.0, deadline - time.perf_counter()))
                if (left_s := deadline - time.perf_counter()) > 0:
                    answers = peer.answer(questions, self._decoding, timeout_s=left_s)
                else:
                    answers = failed_answers(
                        questions, "busy with an earlier call until the deadline"
                    )
                call.set_result(answers)
            except PeerFailedError as failure:
                call.set_result(failed_answers(questions, str(failure)))
            except BaseException as error:  # noqa: BLE001 - it is raised in the thread that waits
                call.set_exception(error)

        # A daemon, since a peer that hangs must not keep the process from ending.
        threading.Thread(target=run, name=f"peer-{peer.name}", daemon=True).start()
        return call


def failed_answers(questions: Sequence[Question], reason: str) -> Answers:
    """A failed continuation for each seed, with the reason."""
    return [[Completion.failed(reason)] * len(question.seeds) for question in questions]


def decoding_of(params: ClassmateParams) -> Decoding:
    """The decoding of continuations."""
    return Decoding(
        temperature=params.temperature if params.do_sample else 0.0,
        top_p=params.top_p,
        max_new_tokens=params.max_new_tokens,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """One judged continuation of a prefix."""

    text: str
    """Without the prefix."""
    right: bool | None
    """The strict verdict on prefix and continuation; None if it was not drawn or not judged."""
    failure: str | None = None
    """Why there is no verdict."""


Continuations = Sequence[Sequence[Continuation]]
"""Of each question, in the order of its seeds."""


def judge_answers(
    questions: Mapping[str, Sequence[Question]],
    answers: Mapping[str, Answers],
    verifier: Verifier,
) -> dict[str, Continuations]:
    """The answers of each peer with their verdicts; all are judged in one batch."""
    items = [
        Item(gold=question.problem.gold, text=question.prefix + one.text, failure=one.error)
        for name, groups in answers.items()
        for question, group in zip(questions[name], groups, strict=True)
        for one in group
    ]
    verdicts = iter(verifier.judge(items))
    return {
        name: [[_judged(one, next(verdicts)) for one in group] for group in groups]
        for name, groups in answers.items()
    }


def _judged(drawn: Completion, verdict: Verdict) -> Continuation:
    failure = drawn.error
    if failure is None and verdict.strict is None:
        failure = f"not judged: {verdict.detail or verdict.status.value}"
    return Continuation(text=drawn.text, right=verdict.strict, failure=failure)


def most_common_reasons(reasons: Counter[str]) -> str:
    """The most common reasons with their numbers, as in ``timeout (3), no answer (1)``."""
    shown = [f"{reason} ({number})" for reason, number in reasons.most_common(_SHOWN_REASONS)]
    more = f", and {len(reasons) - len(shown)} other reasons" if len(reasons) > len(shown) else ""
    return ", ".join(shown) + more
