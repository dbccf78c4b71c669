"""CPU seconds of pieces of work, as the operating system counts them.

The compute of two trainings is compared in CPU seconds, since wall-clock seconds grow with the load of
the machine.
"""

import functools
import os
import threading
import time
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psutil


def start_laps() -> Callable[[], tuple[float, float]]:
    """A function of the CPU and wall seconds since its last call, or since now, for a process that does nothing else.

    CPU seconds are of this process and of its ended children.
    """
    last = _own_seconds(), time.perf_counter()

    def lap() -> tuple[float, float]:
        nonlocal last
        before, last = last, (_own_seconds(), time.perf_counter())
        return last[0] - before[0], last[1] - before[1]

    return lap


@dataclass(slots=True, eq=False)
class Block:
    """A piece of work; its seconds are final at its end."""

    cpu_seconds: float = 0.0


class Meter:
    """CPU seconds of blocks of code, which may run at once in threads of this process.

    While n blocks are open, each is charged 1/n of the CPU time of the process, so the sum is exact.
    Child processes started after the meter, such as a pool of verifiers, are included; older ones,
    such as a server, are not.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: list[Block] = []
        # By identity, since start times of processes are rounded to seconds.
        self._older = frozenset(psutil.Process().children())
        self._last = 0.0

    @contextmanager
    def block(self) -> Iterator[Block]:
        """Measure the block."""
        found = Block()
        with self._lock:
            self._settle()
            self._open.append(found)
        try:
            yield found
        finally:
            with self._lock:
                self._settle()
                self._open.remove(found)

    def _settle(self) -> None:
        now = _own_seconds() + _children_seconds(psutil.Process(), without=self._older)
        for block in self._open:
            # The seconds of a killed child that was not waited for are lost.
            block.cpu_seconds += max(0.0, now - self._last) / len(self._open)
        self._last = now


def _own_seconds() -> float:
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def _children_seconds(
    process: psutil.Process, *, without: Set[psutil.Process] = frozenset()
) -> float:
    """CPU seconds of the living children and of all their descendants, ended ones included."""
    total = 0.0
    for child in process.children():
        if child not in without:
            with suppress(psutil.NoSuchProcess):
                total += sum(child.cpu_times()[:4]) + _children_seconds(child)
    return total


@functools.cache
def shard_meter() -> Meter:
    """The meter of this process's shards. Created per process, since a lock cannot be pickled."""
    return Meter()
