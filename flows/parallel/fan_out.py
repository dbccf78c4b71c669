"""Fan-out of tasks over shards, with a bound on the tasks in flight."""

import queue
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Generic, TypeVar

from prefect.futures import PrefectFuture
from prefect.tasks import Task

In = TypeVar("In")
Mid = TypeVar("Mid")
Out = TypeVar("Out")
_SIGNAL_POLL_S = 1.0
Submit = Callable[[In], PrefectFuture[Out]]
"""Submits a task for one item: the ``submit`` of a task, or a function around it."""


def map_bounded(task: Task[[In], Out], items: Iterable[In], *, in_flight: int) -> list[Out]:
    """Results of ``task`` for each item, in order; at most ``in_flight`` are submitted at a time.

    When any of them ends the next item is taken, so a long table holds neither tasks nor items in
    memory. The first failure is raised as it comes; what is done by then stays done, and nothing
    more is submitted.
    """
    submitted = _InFlight()
    results: dict[int, Out] = {}
    for index, item in enumerate(items):
        submitted.submit(task.submit, item, partial(results.__setitem__, index))
        if len(submitted) == in_flight:
            submitted.end_one()
    while submitted:
        submitted.end_one()
    return _in_order(results)


class Chain(Generic[In, Mid, Out]):
    """Two tasks per item, the second submitted with the result of the first as soon as it has ended.

    An item is in flight from the submission of its first task to the end of its second. At most half
    of the items in flight are in tasks of one kind, so neither kind takes the workers of the other.
    A second task goes before the first task of a further item. Failures end it as in `map_bounded`.
    """

    def __init__(self, first: Submit[In, Mid], second: Submit[Mid, Out], *, in_flight: int) -> None:
        self._first, self._second = first, second
        self._in_flight, self._of_a_kind = in_flight, max(1, in_flight // 2)
        self._submitted = _InFlight()
        self._waiting: deque[tuple[int, Mid]] = deque()
        self._begun = 0
        self._running_second = 0
        self._first_results: dict[int, Mid] = {}
        self._second_results: dict[int, Out] = {}

    def first_results(self, items: Iterable[In]) -> list[Mid]:
        """Results of the first task for each item, in order; second tasks may be unfinished then."""
        for index, item in enumerate(items):
            while not self._has_room():
                self._submitted.end_one()
            self._begun += 1
            self._submitted.submit(self._first, item, partial(self._end_first, index))
        while len(self._first_results) < self._begun:
            self._submitted.end_one()
        return _in_order(self._first_results)

    def second_results(self) -> list[Out]:
        """Results of the second task for each item, in order, when all have ended."""
        while self._submitted:
            self._submitted.end_one()
        return _in_order(self._second_results)

    def _has_room(self) -> bool:
        running_first = self._begun - len(self._first_results)
        unfinished = self._begun - len(self._second_results)
        return running_first < self._of_a_kind and unfinished < self._in_flight

    def _end_first(self, index: int, result: Mid) -> None:
        self._first_results[index] = result
        self._waiting.append((index, result))
        self._submit_waiting()

    def _end_second(self, index: int, result: Out) -> None:
        self._running_second -= 1
        self._second_results[index] = result
        self._submit_waiting()

    def _submit_waiting(self) -> None:
        while self._waiting and self._running_second < self._of_a_kind:
            index, item = self._waiting.popleft()
            self._running_second += 1
            self._submitted.submit(self._second, item, partial(self._end_second, index))


class _InFlight:
    """Submitted tasks that have not ended."""

    def __init__(self) -> None:
        self._ended: queue.SimpleQueue[PrefectFuture[Any]] = queue.SimpleQueue()
        self._receivers: dict[PrefectFuture[Any], Callable[[Any], None]] = {}

    def __len__(self) -> int:
        return len(self._receivers)

    def submit(self, task: Submit[In, Out], item: In, on_result: Callable[[Out], None]) -> None:
        """Submit the task for ``item``."""
        with _signals_held():
            future = task(item)
        self._receivers[future] = on_result
        future.add_done_callback(self._ended.put)

    def end_one(self) -> None:
        """Wait until any task ends, and pass on its result; a failure is raised."""
        future = _next(self._ended)
        self._receivers.pop(future)(future.result())


def result_of(future: PrefectFuture[Out]) -> Out:
    """Wait for a submitted task, and return its result.

    ``future.result()`` waits inside Ray, which drops the exception of Prefect's handler of SIGTERM.
    """
    ended: queue.SimpleQueue[PrefectFuture[Out]] = queue.SimpleQueue()
    future.add_done_callback(ended.put)
    return _next(ended).result()


def _next(ended: queue.SimpleQueue[PrefectFuture[Out]]) -> PrefectFuture[Out]:
    """The next future that has ended.

    A handler runs in the main thread alone, and a signal that comes to another thread does not wake it.
    """
    while True:
        with suppress(queue.Empty):
            return ended.get(timeout=_SIGNAL_POLL_S)


def _in_order(results: dict[int, Out]) -> list[Out]:
    return [results[index] for index in range(len(results))]


@contextmanager
def _signals_held() -> Iterator[None]:
    """Delay SIGTERM and SIGINT until the end of the block.

    Prefect serializes much when a task is submitted. An exception of a signal handler would come
    out of that as an error of pydantic's, and the run would end as failed instead of as told to.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []
    # None: a handler installed from C, which cannot be restored.
    numbers = [n for n in (signal.SIGTERM, signal.SIGINT) if signal.getsignal(n) is not None]
    handlers = {n: signal.signal(n, lambda number, _: held.append(number)) for n in numbers}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for came in held:
            signal.raise_signal(came)
