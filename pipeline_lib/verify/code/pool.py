"""Pool of jails with one program in each; slow programs do not block the others.

A program that sleeps until its deadline would delay all later ones. A straggler therefore frees its
slot (`stragglers`), and another jail is opened, up to a bound.
"""

import collections
import contextlib
import functools
import math
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Self

from pipeline_lib.errors import ReasonloopError
from pipeline_lib.kinds.code import CodeGold
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.verdicts import Verdict
from pipeline_lib.verify.code.judge import CodeJudge, ProgramJudge
from pipeline_lib.verify.failures import timed_verdict
from pipeline_lib.verify.sandbox.tiers import open_named_tier, open_tier
from pipeline_lib.verify.stragglers import MAX_STRAGGLERS, seconds_to_slot


class CodePool:
    """Up to ``num_workers`` busy jails, plus a few while some programs are slow.

    Thread-safe; calls are serialized.

    Args:
        first: an open jail; closed by the pool.
        open_more: opens another jail of the same tier; called from any thread.
        num_workers: jails that run programs at once, without stragglers.
    """

    def __init__(
        self, first: CodeJudge, open_more: Callable[[], CodeJudge], *, num_workers: int
    ) -> None:
        self._open_more = open_more
        self._num_workers = num_workers
        self._jails = [first]
        self._free: queue.SimpleQueue[CodeJudge] = queue.SimpleQueue()
        self._free.put(first)
        self._threads = ThreadPoolExecutor(num_workers + MAX_STRAGGLERS)
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Wait for the running programs, then close all jails."""
        self._threads.shutdown(cancel_futures=True)
        for jail in self._jails:
            jail.close()

    def judge(self, pairs: Sequence[tuple[CodeGold, str]]) -> list[Verdict]:
        """One verdict per (gold, text), in order; an exception affects only its own item."""
        waiting = collections.deque(pairs)
        futures: list[Future[Verdict]] = []
        started_s: dict[Future[Verdict], float] = {}
        with self._lock:
            while waiting or started_s:
                now_s = time.perf_counter()
                room_s = math.inf
                if waiting:
                    room_s = seconds_to_slot(
                        started_s.values(), num_workers=self._num_workers, now_s=now_s
                    )
                if room_s <= 0:
                    futures.append(self._threads.submit(self._judge_one, *waiting.popleft()))
                    started_s[futures[-1]] = now_s
                    continue
                patience_s = None if math.isinf(room_s) else room_s
                for done in wait(started_s, patience_s, FIRST_COMPLETED).done:
                    del started_s[done]
        return [future.result() for future in futures]

    def _judge_one(self, gold: CodeGold, text: str) -> Verdict:
        jail = self._free_or_new()
        try:
            return timed_verdict(lambda: jail.judge(gold, text))
        finally:
            self._free.put(jail)

    def _free_or_new(self) -> CodeJudge:
        with contextlib.suppress(queue.Empty):
            return self._free.get_nowait()
        try:
            jail = self._open_more()
        except (ReasonloopError, OSError):
            # Out of memory or processes: wait for an open jail.
            return self._free.get()
        self._jails.append(jail)
        return jail


def open_judge(
    params: VerifyParams, *, workers: int, kind: type[CodeJudge] = CodeJudge
) -> CodePool:
    """Open the best tier of the sandbox, or the one named by ``params``, after one self-test.

    Raises:
        SandboxUnavailableError: no tier passes its self-test; nothing is run.
    """
    opened = open_tier(params.code)
    first = kind(opened)
    return CodePool(
        first, lambda: kind(open_named_tier(opened.name, params.code)), num_workers=workers
    )


open_program_judge = functools.partial(open_judge, kind=ProgramJudge)
"""The same for programs that read standard input."""
