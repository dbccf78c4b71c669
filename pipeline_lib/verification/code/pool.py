"""Several jails at once, one program in each; slow programs do not block the others.

A program that sleeps until its deadline would delay all that follow. So a program that runs for long
gives up its place (`stragglers`), and one more jail is opened for the next, up to a bound.
"""

import collections
import contextlib
import math
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Self

from pipeline_lib.errors import ReasonloopError
from pipeline_lib.kinds.code import CodeGold
from pipeline_lib.params.paths import CodeLimits, VerifyParams
from pipeline_lib.verdicts import Verdict
from pipeline_lib.verification.code.judge import CodeJudge
from pipeline_lib.verification.failures import timed_verdict
from pipeline_lib.verification.sandbox.tiers import open_tier, reopen_tier
from pipeline_lib.verification.stragglers import MAX_SLOW, seconds_to_room


class CodePool:
    """Up to ``num_workers`` jails at work, and a few more while some programs are slow.

    Calls from several threads take turns.

    Args:
        first: a jail that is open; the pool closes it.
        open_more: opens one more of the same kind; called from any thread.
        num_workers: jails that work at once on programs that are not slow.
    """

    def __init__(
        self, first: CodeJudge, open_more: Callable[[], CodeJudge], *, num_workers: int
    ) -> None:
        self._open_more = open_more
        self._num_workers = num_workers
        self._jails = [first]
        self._free: queue.SimpleQueue[CodeJudge] = queue.SimpleQueue()
        self._free.put(first)
        self._threads = ThreadPoolExecutor(num_workers + MAX_SLOW)
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all jails, once the programs in them have ended."""
        self._threads.shutdown(cancel_futures=True)
        for jail in self._jails:
            jail.close()

    def judge(self, pairs: Sequence[tuple[CodeGold, str]]) -> list[Verdict]:
        """One verdict per (gold, text), in order; an exception affects only its own item."""
        with self._lock:
            return self._judge(pairs)

    def _judge(self, pairs: Sequence[tuple[CodeGold, str]]) -> list[Verdict]:
        waiting = collections.deque(range(len(pairs)))
        running: dict[Future[Verdict], _Run] = {}
        verdicts: dict[int, Verdict] = {}
        while waiting or running:
            while waiting and self._seconds_to_room(running) <= 0:
                index = waiting.popleft()
                future = self._threads.submit(self._judge_one, *pairs[index])
                running[future] = _Run(index=index, started_s=time.perf_counter())
            room_s = self._seconds_to_room(running) if waiting else math.inf
            patience_s = None if math.isinf(room_s) else room_s
            for done in wait(running, patience_s, FIRST_COMPLETED).done:
                verdicts[running.pop(done).index] = done.result()
        return [verdicts[index] for index in range(len(pairs))]

    def _seconds_to_room(self, running: Mapping[Future[Verdict], "_Run"]) -> float:
        return seconds_to_room(
            [run.started_s for run in running.values()],
            num_workers=self._num_workers,
            now_s=time.perf_counter(),
        )

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
            # Memory or processes are short: those that are open do all the work, as they become free.
            return self._free.get()
        self._jails.append(jail)
        return jail


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """One running program: its index in the batch, and its start."""

    index: int
    started_s: float


def open_code_pool(limits: CodeLimits, *, num_workers: int) -> CodePool:
    """Open the best tier of the sandbox, or the one that ``limits`` name; self-test it once.

    Raises:
        SandboxUnavailableError: no tier passes its self-test here; nothing is run then.
    """
    opened = open_tier(limits)
    return CodePool(
        CodeJudge(opened),
        lambda: CodeJudge(reopen_tier(opened, limits)),
        num_workers=num_workers,
    )


def open_judge(params: VerifyParams, *, workers: int) -> CodePool:
    """As :func:`open_code_pool`, with the limits of ``params``."""
    return open_code_pool(params.code, num_workers=workers)
