"""Watchdogs: end a run within seconds, with one line, if its Prefect server or local Ray has died.

Prefect retries for minutes in several threads and then raises each of their errors; Ray prints the
log of the dead process.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import psutil

from flows.run.failures import RUN_AGAIN
from flows.run.terminal import complain
from flows.server import server
from pipeline_lib.errors import ReasonloopError

_REMOTE_PATIENCE_S = 60.0
"""Longest silence of a remote server. Prefect's clients retry refused requests as long, so a server that is
started again in this time ends no run.
"""
_LOCAL_PATIENCE_S = 180.0
"""Longest silence of a local server whose process is alive. It accepts requests, so that clients wait for 60 s
each time, and it may itself wait for 60 s for its database's lock.
"""
SERVER_POLL_S = 1.0
_SLOW_POLL_S = 10.0
"""Longest time between two polls that counts as silence: the interval, a timeout, and some more."""
WORKSPACE_POLL_S = 1.0
CHILDREN_POLL_S = 0.2
"""Short, because Ray prints some fifty lines about a second after one of its processes dies."""
_GRACE_S = 5.0
"""Time for context managers to stop engines and workers, before everything left is killed."""
_SIGNAL = signal.SIGUSR2


@contextmanager
def watched(problem: Callable[[], str | None], *, poll_s: float) -> Iterator[None]:
    """End this process with exit code 1 once ``problem`` returns a message.

    The block is left by SystemExit. If that takes long, because Prefect reports to the dead server,
    the process and its children are killed. Does nothing outside of the main thread, the only one
    that signals interrupt.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    over, deciding = threading.Event(), threading.Lock()
    before = signal.signal(_SIGNAL, _leave)
    arguments = (problem, poll_s, over, deciding)
    threading.Thread(target=_watch, args=arguments, name="watch", daemon=True).start()
    try:
        yield
    finally:
        with deciding:
            over.set()
        signal.signal(_SIGNAL, before)


def server_problem(api_url: str) -> Callable[[], str | None]:
    """A function to poll: a message once the server at ``api_url`` has died, else None."""
    local = server.find()
    if local is not None and local.api_url != api_url:
        local = None
    patience_s = _REMOTE_PATIENCE_S if local is None else _LOCAL_PATIENCE_S
    silence = silence_problem(api_url, lambda: server.answers(api_url), patience_s=patience_s)

    def problem() -> str | None:
        if local is not None and local.process() is None:
            return f"the Prefect server (process {local.pid}) has died"
        return silence()

    return problem


def silence_problem(
    name: str, answers: Callable[[], bool], *, patience_s: float
) -> Callable[[], str | None]:
    """A function to poll: a message once ``answers`` has been False for ``patience_s``, else None.

    A machine that was suspended, or stalled as a whole, counts for no more than one slow poll.
    """
    polled_s, silent_s = time.monotonic(), 0.0

    def problem() -> str | None:
        nonlocal polled_s, silent_s
        answered = answers()
        now_s = time.monotonic()
        silent_s = 0.0 if answered else silent_s + min(now_s - polled_s, _SLOW_POLL_S)
        polled_s = now_s
        return f"{name} gives no answer for {silent_s:.0f} s" if silent_s > patience_s else None

    return problem


def children_problem(names: Collection[str]) -> Callable[[], str | None]:
    """A function to poll: a message once one of the child processes called ``names`` has died."""
    children = psutil.Process().children(recursive=True)
    return processes_problem([child for child in children if child.name() in names])


def processes_problem(processes: Sequence[psutil.Process]) -> Callable[[], str | None]:
    """A function to poll: a message once one of Ray's ``processes`` has died, else None."""

    def problem() -> str | None:
        for process in processes:
            if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
                return f"a process of Ray (process {process.pid}) has died; is memory short?"
        return None

    return problem


def _watch(
    problem: Callable[[], str | None],
    poll_s: float,
    over: threading.Event,
    deciding: threading.Lock,
) -> None:
    while not over.wait(poll_s):
        if not (found := _found(problem)):
            continue
        with deciding:
            if over.is_set():  # the block ended during the poll: what it watched may be released
                return
            complain(f"{found}; {RUN_AGAIN}")
            _silence()
            signal.pthread_kill(threading.main_thread().ident or 0, _SIGNAL)
        time.sleep(_GRACE_S)
        _end()


def _found(problem: Callable[[], str | None]) -> str | None:
    try:
        return problem()
    except psutil.NoSuchProcess as error:  # it died between two calls
        return f"process {error.pid} has died"


def _leave(_signal: int, _frame: FrameType | None) -> None:
    sys.exit(ReasonloopError.exit_code)


def _silence() -> None:
    """Discard the output of other threads, which report the same server."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123 - a device
        for descriptor in (1, 2):
            os.dup2(nowhere.fileno(), descriptor)


def _end() -> None:
    children = psutil.Process().children(recursive=True)
    for child in children:
        child.kill()
    psutil.wait_procs(children, timeout=_GRACE_S)
    os._exit(ReasonloopError.exit_code)
