"""Processes of one start, found by a variable of their environment: also those that left its family."""

import time

import psutil

MARK = "REASONLOOP_TEST"


def marked(mark: str) -> list[psutil.Process]:
    """Processes that are alive and have ``mark`` in their environment."""
    return [process for process in psutil.process_iter() if _has(process, mark)]


def _has(process: psutil.Process, mark: str) -> bool:
    try:
        ended = process.status() == psutil.STATUS_ZOMBIE
        return not ended and process.environ().get(MARK) == mark
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def wait_until_gone(mark: str, *, timeout_s: float) -> list[str]:
    """The names of the processes that are still alive after ``timeout_s``; returns once there is none."""
    deadline = time.monotonic() + timeout_s
    while (left := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return [str(process) for process in left]
