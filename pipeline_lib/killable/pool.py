"""Pool of workers that may be slow: a straggler frees its slot, so that it does not delay other items.

A worker is a handle of a process that can be killed: a jail, or a process that compares with SymPy.
It ends its item by itself, at the item's deadline.
"""

import collections
import contextlib
import math
import queue
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Generic, Protocol, Self, TypeVar

from pipeline_lib.errors import ReasonloopError

STRAGGLER_AFTER_S = 0.25
"""An item that runs longer is a straggler: about ten times an ordinary item (20 ms), a tenth of the
shortest usual deadline (2 s)."""
MAX_STRAGGLERS = 4
"""Stragglers that may run besides ``num_workers`` other items. Bounded, because they share cores
and memory: ``num_workers + MAX_STRAGGLERS`` processes, each with its own memory limit."""

_Item_contra = TypeVar("_Item_contra", contravariant=True)
_Answer_co = TypeVar("_Answer_co", covariant=True)


class Worker(Protocol[_Item_contra, _Answer_co]):
    """Answers one item at a time, from any thread."""

    def answer(self, item: _Item_contra, /) -> _Answer_co:
        """The answer to one item; an exception ends the batch."""

    def close(self) -> None:
        """End its process."""


class Pool(Generic[_Item_contra, _Answer_co]):
    """Up to ``num_workers`` busy workers, plus a few while some items are slow.

    Thread-safe; calls are serialized. ``first`` is an open worker, ``open_worker`` opens another one,
    in any thread.
    """

    def __init__(
        self,
        open_worker: Callable[[], Worker[_Item_contra, _Answer_co]],
        *,
        num_workers: int,
        first: Worker[_Item_contra, _Answer_co] | None = None,
    ) -> None:
        self._open_worker = open_worker
        self._num_workers = num_workers
        self._workers = [first] if first else []
        # The last one first: its caches are filled.
        self._free: queue.LifoQueue[Worker[_Item_contra, _Answer_co]] = queue.LifoQueue()
        for worker in self._workers:
            self._free.put(worker)
        self._threads = ThreadPoolExecutor(num_workers + MAX_STRAGGLERS)
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Wait for the items in work, then close all workers."""
        self._threads.shutdown(cancel_futures=True)
        for worker in self._workers:
            worker.close()

    def judge(self, items: Sequence[_Item_contra]) -> list[_Answer_co]:
        """One answer per item, in order."""
        waiting = collections.deque(items)
        futures: list[Future[_Answer_co]] = []
        started_s: dict[Future[_Answer_co], float] = {}
        with self._lock:
            while waiting or started_s:
                now_s = time.perf_counter()
                slot_s = seconds_to_slot(
                    started_s.values(), num_workers=self._num_workers, now_s=now_s
                )
                if waiting and slot_s <= 0:
                    futures.append(self._threads.submit(self._answer, waiting.popleft()))
                    started_s[futures[-1]] = now_s
                    continue
                patience_s = slot_s if waiting and math.isfinite(slot_s) else None
                for done in wait(started_s, patience_s, FIRST_COMPLETED).done:
                    del started_s[done]
                    if done.exception():
                        waiting.clear()
        return [future.result() for future in futures]

    def _answer(self, item: _Item_contra) -> _Answer_co:
        worker = self._free_or_new()
        try:
            return worker.answer(item)
        finally:
            self._free.put(worker)

    def _free_or_new(self) -> Worker[_Item_contra, _Answer_co]:
        with contextlib.suppress(queue.Empty):
            return self._free.get_nowait()
        try:
            worker = self._open_worker()
        except (ReasonloopError, OSError):
            # Out of memory or processes: wait for an open worker.
            return self._free.get()
        self._workers.append(worker)
        return worker


def seconds_to_slot(started_s: Collection[float], *, num_workers: int, now_s: float) -> float:
    """Seconds until the next item may start if none of the running ones, started then, ends before.

    0.0 if a slot is free; infinity if only the end of an item frees one.
    """
    if len(started_s) < num_workers:
        return 0.0
    if len(started_s) >= num_workers + MAX_STRAGGLERS:
        return math.inf
    # When this item becomes a straggler, fewer than num_workers other items are running.
    deciding = sorted(started_s, reverse=True)[num_workers - 1]
    return max(0.0, deciding + STRAGGLER_AFTER_S - now_s)
