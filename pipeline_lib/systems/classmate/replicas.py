"""Several processes or actors of one peer: its questions are shared out, and asked again where one is slow or has failed.

Questions are dealt into as many shares as there are replicas, and any replica takes any share: who answers, and how
fast, changes no text.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.systems.classmate.peer import (
    Answers,
    Peer,
    PeerFailedError,
    Question,
    failed_answers,
)

_LATE = 2.0
"""A share is late after this many times the seconds of the slowest one that is answered, and `_LEAST_S`."""
_LEAST_S = 0.5


class ReplicatedPeer:
    """Implements Peer on its replicas. An idle one also takes a share that is late; the first answer counts.

    A share has no answer if every replica has failed on it, or at the deadline.
    """

    def __init__(self, name: str, replicas: Sequence[Peer]) -> None:
        self.name = name
        self.identity = replicas[0].identity
        self._replicas = [(one, threading.Lock()) for one in replicas]

    def answer(
        self, questions: Sequence[Question], decoding: Decoding, *, timeout_s: float
    ) -> Answers:
        """As `Peer`; continuations of a share without an answer are failed ones, with the reason."""
        number = min(len(self._replicas), len(questions))
        shares = [_Share(questions[place::number]) for place in range(number)]
        call = _Call(shares, decoding, num_replicas=len(self._replicas), timeout_s=timeout_s)
        for replica, lock in self._replicas:
            # A daemon, as the threads of `Peers`.
            threading.Thread(target=call.work, args=(replica, lock), daemon=True).start()
        found = call.wait()
        return [found[place % number][place // number] for place in range(len(questions))]


@dataclass(slots=True)
class _Share:
    questions: Sequence[Question]
    asked: list[Peer] = field(default_factory=list)
    began_s: float = 0.0
    """When it was last taken."""
    failures: list[str] = field(default_factory=list)
    """Of replicas that were asked."""
    answers: Answers | None = None


class _Call:
    """The shares of one call, which replicas take in threads of their own."""

    def __init__(
        self,
        shares: Sequence[_Share],
        decoding: Decoding,
        *,
        num_replicas: int,
        timeout_s: float,
    ) -> None:
        self._shares = shares
        self._decoding = decoding
        self._num_replicas = num_replicas
        self._timeout_s = timeout_s
        self._deadline_s = time.monotonic() + timeout_s
        self._slowest_s = timeout_s / (2 * _LATE)
        self._bug: BaseException | None = None
        self._changed = threading.Condition()

    def wait(self) -> list[Answers]:
        """The answers of each share, once all are there; an exception that is no `PeerFailedError` is raised."""
        with self._changed:
            self._changed.wait_for(lambda: self._bug or not self._open(), timeout=self._left_s)
            if self._bug is not None:
                raise self._bug
            late = f"no answer within {self._timeout_s:g} s"
            return [
                share.answers or failed_answers(share.questions, [late, *share.failures][-1])
                for share in self._shares
            ]

    def work(self, replica: Peer, lock: threading.Lock) -> None:
        """Take shares until none is left for ``replica``, which may first have to end one of an earlier call."""
        if not lock.acquire(timeout=self._left_s):
            return
        try:
            while (share := self._take(replica)) is not None:
                self._ask(replica, share)
        except BaseException as error:  # noqa: BLE001 - it is raised in the thread that waits
            with self._changed:
                self._bug = error
                self._changed.notify_all()
        finally:
            lock.release()

    @property
    def _left_s(self) -> float:
        return max(0.0, self._deadline_s - time.monotonic())

    def _open(self) -> list[_Share]:
        return [
            share
            for share in self._shares
            if share.answers is None and len(share.failures) < self._num_replicas
        ]

    def _take(self, replica: Peer) -> _Share | None:
        """A share that no replica works on, else one that is late; None if ``replica`` was asked all that are open."""
        with self._changed:
            while self._left_s:
                others = [s for s in self._open() if not any(one is replica for one in s.asked)]
                if not others:
                    return None
                share = min(others, key=self._due_s)
                wait_s = self._due_s(share) - time.monotonic()
                if wait_s <= 0:
                    share.asked.append(replica)
                    share.began_s = time.monotonic()
                    return share
                self._changed.wait(min(wait_s, self._left_s))
        return None

    def _due_s(self, share: _Share) -> float:
        is_waiting = len(share.asked) == len(share.failures)
        return 0.0 if is_waiting else share.began_s + max(_LEAST_S, _LATE * self._slowest_s)

    def _ask(self, replica: Peer, share: _Share) -> None:
        began_s = time.monotonic()
        try:
            answers = replica.answer(share.questions, self._decoding, timeout_s=self._left_s)
        except PeerFailedError as failure:
            with self._changed:
                share.failures.append(str(failure))
                self._changed.notify_all()
            return
        with self._changed:
            share.answers = share.answers or answers
            answered = [one for one in self._shares if one.answers is not None]
            took_s = time.monotonic() - began_s
            self._slowest_s = took_s if len(answered) == 1 else max(self._slowest_s, took_s)
            self._changed.notify_all()
