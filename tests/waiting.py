"""Waiting for what another thread or process makes true, and commands that are killed."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Protocol


class _Ending(Protocol):
    def poll(self) -> int | None: ...


def until(
    condition: Callable[[], object],
    *,
    process: _Ending | None = None,
    timeout_s: float = 240.0,
    poll_s: float = 0.02,
) -> None:
    """Return once the condition holds; ``process`` must not end before, nor ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert process is None or process.poll() is None, "the process has ended"
        assert time.monotonic() < deadline, "not in time"
        time.sleep(poll_s)


async def until_async(condition: Callable[[], object]) -> None:
    """Return once the condition holds; it depends on another thread."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.001)


def kill_when(reached: Callable[[], object], *arguments: object) -> None:
    """Start a command, and end it by SIGKILL once ``reached`` is true."""
    command = [sys.executable, "-m", "flows.cli", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(reached, process=process, poll_s=0.005)
    finally:
        process.kill()
        process.wait()
