"""Waiting for processes in tests."""

import time
from collections.abc import Callable

import psutil

GIVE_UP_S = 120.0
"""Time limit of awaited conditions; no deadline under test is this long."""


def eventually(condition: Callable[[], bool]) -> bool:
    """True if ``condition`` becomes true in time."""
    end = time.monotonic() + GIVE_UP_S
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def gone(processes: list[psutil.Process]) -> bool:
    """True if none of them runs."""
    return not any(map(_is_alive, processes))


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # it was reaped between the two questions
        return False
