"""Runs one engine and leaves no process of it behind. A script, which imports nothing of the project.

It is the parent of the engine's first process and a child subreaper: it adopts every descendant
whose parent dies (vLLM's EngineCore and workers survive the kill of their server). It ends them all
when the engine ends, on a signal, or when the process that started it is gone, however that died.
PR_SET_PDEATHSIG alone is not enough: it is sent when the *thread* that started a child ends, and to
that child only.

SIGTERM ends the engine by SIGTERM with a grace period, SIGQUIT kills at once. The exit code is that
of the engine, 128 + N if signal N ended it.

Usage: subreaper.py ORDER. ORDER is JSON: process id of the ``parent``, the engine's ``command``,
changes to its ``environment``, a ``scratch`` folder that is removed with it, and ``grace_s``.
"""

import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress

import psutil

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_POLL_S, _FAST_POLL_S = 0.25, 0.05
_ORPHANED_GRACE_S = 3.0
"""For an engine whose parent is gone: no client waits for its responses."""
_HEADLESS_GRACE_S = 2.0
"""For descendants after the engine's first process has ended."""
_TRACKER_GRACE_S = 5.0
_TRACKER = "multiprocessing.resource_tracker"
_AWAITED = {signal.SIGTERM, signal.SIGQUIT, signal.SIGCHLD}
_PRCTL = ctypes.CDLL(None).prctl


class Subreaper:
    """One engine with all of its processes."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._exit_codes: dict[int, int] = {}
        self._engine = subprocess.Popen(  # noqa: S603 - the launch of an engine
            command,
            stdin=subprocess.DEVNULL,
            env=environment,
            preexec_fn=_become_engine,  # noqa: PLW1509 - this process has one thread
        ).pid

    @property
    def exit_code(self) -> int | None:
        """Exit code of the engine's first process; None while it runs."""
        return self._exit_codes.get(self._engine)

    def wait(self, *, parent: int, grace_s: float) -> float:
        """Wait for a reason to end the engine; returns the grace period in seconds."""
        while True:
            received = self._next_signal(_POLL_S)
            if self.exit_code is not None or received == signal.SIGQUIT:
                return 0.0
            if received == signal.SIGTERM:
                return grace_s
            if os.getppid() != parent:
                return _ORPHANED_GRACE_S

    def end(self, grace_s: float) -> None:
        """SIGTERM, wait, SIGKILL. Returns when no process is left."""
        if grace_s:
            _send(signal.SIGTERM, _descendants())
        deadline = time.monotonic() + grace_s
        while _descendants() and time.monotonic() < deadline:
            if self._next_signal(_FAST_POLL_S) == signal.SIGQUIT:
                break
            if self.exit_code is not None:
                deadline = min(deadline, time.monotonic() + _HEADLESS_GRACE_S)
        self._kill()

    def _kill(self) -> None:
        # The resource trackers of multiprocessing go last: each ends once its clients are gone,
        # and unlinks their shared memory and semaphores.
        deadline = time.monotonic() + _TRACKER_GRACE_S
        while left := _descendants():
            trackers = {process for process in left if _is_tracker(process)}
            patient = time.monotonic() < deadline
            _send(signal.SIGCONT, trackers)
            _send(signal.SIGKILL, set(left) - trackers if patient else left)
            self._next_signal(_FAST_POLL_S)

    def _next_signal(self, timeout_s: float) -> int | None:
        """The next signal, or None after the timeout; records the exit codes of ended children."""
        received = signal.sigtimedwait(_AWAITED, timeout_s)
        while (ended := _ended_child()) is not None:
            pid, code = ended
            self._exit_codes[pid] = code
        return received.si_signo if received else None


def _become_engine() -> None:
    # If the subreaper is killed, the engine's first process dies with it.
    _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _ended_child() -> tuple[int, int] | None:
    """Process id and exit code of one ended child, adopted ones included; None without any."""
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    code = os.waitstatus_to_exitcode(status)
    return (pid, code if code >= 0 else 128 - code) if pid else None


def _descendants() -> list[psutil.Process]:
    """All descendants, zombies included."""
    return psutil.Process().children(recursive=True)


def _is_tracker(process: psutil.Process) -> bool:
    try:
        return any(_TRACKER in word for word in process.cmdline())
    except psutil.Error:
        return False


def _send(number: int, processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def _environment(changes: dict[str, str | None], scratch: str) -> dict[str, str]:
    """This environment with the engine's changes; temporary files go to ``scratch``."""
    # Compiled kernels are kept, outside the scratch folder. By user id: in a container a user may
    # have no name.
    kernels = pathlib.Path(tempfile.gettempdir()) / f"torchinductor_{os.getuid()}"
    given = dict(os.environ)  # noqa: TID251 - passed on, not read
    merged = {"TORCHINDUCTOR_CACHE_DIR": str(kernels), **given, "TMPDIR": scratch, **changes}
    return {name: value for name, value in merged.items() if value is not None}


def main() -> int:
    """Run the engine until it ends or is ended."""
    order = json.loads(sys.argv[1])
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _PRCTL(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        reaper = Subreaper(order["command"], _environment(order["environment"], order["scratch"]))
        reaper.end(reaper.wait(parent=order["parent"], grace_s=order["grace_s"]))
    finally:
        shutil.rmtree(order["scratch"], ignore_errors=True)
    return reaper.exit_code if reaper.exit_code is not None else 128 + signal.SIGKILL


if __name__ == "__main__":
    sys.exit(main())
