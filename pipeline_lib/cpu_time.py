"""CPU seconds of pieces of work, as the operating system counts them.

Seconds by the clock grow with whatever else the machine does; CPU seconds hardly do, so they are what
the compute of two trainings is compared in.
"""

import functools
import os
import threading
import time
from collections.abc import Iterator, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True, kw_only=True)
class Lap:
    """What a part of a training took."""

    cpu_seconds: float
    """Of this process and of its children that have ended."""
    wall_seconds: float


class Laps:
    """Lap times of one process in which nothing else is at work."""

    def __init__(self) -> None:
        self._cpu, self._wall = _own_seconds(), time.perf_counter()

    def lap(self) -> Lap:
        """Since the last lap, or since the start."""
        cpu, wall = _own_seconds(), time.perf_counter()
        found = Lap(cpu_seconds=cpu - self._cpu, wall_seconds=wall - self._wall)
        self._cpu, self._wall = cpu, wall
        return found


@dataclass(slots=True, eq=False)
class Block:
    """A piece of work; its seconds are final once it has ended."""

    cpu_seconds: float = 0.0


class Meter:
    """Counts for blocks of code, also where several run at once in threads of this process.

    What the process spends while n blocks are open counts to each of them by one n-th, so their sum
    is right. Processes that were started since the meter was made, such as a pool of verifiers, are
    part of it; older ones, such as a server, are not.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: list[Block] = []
        # By identity, since the time at which a process began is known to the second only.
        self._older = frozenset(psutil.Process().children())
        self._last = 0.0

    @contextmanager
    def block(self) -> Iterator[Block]:
        """Count for this block."""
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
            # A child that was killed and not waited for takes its seconds along.
            block.cpu_seconds += max(0.0, now - self._last) / len(self._open)
        self._last = now


def _own_seconds() -> float:
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def _children_seconds(
    process: psutil.Process, *, without: Set[psutil.Process] = frozenset()
) -> float:
    """Of the children that live, with all below them and with what has ended below them."""
    total = 0.0
    for child in process.children():
        if child not in without:
            with suppress(psutil.NoSuchProcess):
                total += sum(child.cpu_times()[:4]) + _children_seconds(child)
    return total


@functools.cache
def shard_meter() -> Meter:
    """Of the shards that this process works on; made here, since a lock cannot go to a worker."""
    return Meter()
