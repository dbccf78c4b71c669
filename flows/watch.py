"""Ends a run whose Prefect server or local Ray has gone, with one line and within seconds.

Prefect itself tries again for minutes, in several threads, and then raises what each of them met; Ray
prints the log of what has died.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import FrameType

import psutil

from flows import server
from flows.terminal import complain
from pipeline_lib.errors import ReasonloopError

PATIENCE_S = 30.0
"""Longest silence of a remote server, or of a local one whose process is alive."""
SERVER_POLL_S = 1.0
CHILDREN_POLL_S = 0.2
"""Ray prints some fifty lines about a second after one has gone."""
_GRACE_S = 5.0
"""For engines and workers to be stopped by whoever started them."""
_SIGNAL = signal.SIGUSR2


@contextmanager
def watched(problem: Callable[[], str | None], *, poll_s: float) -> Iterator[None]:
    """End this process, exit code 1, once ``problem`` says what is wrong.

    The block is left by SystemExit. Should that take long, because Prefect wants to report it to
    the server, what is left of the process and its children is killed. Outside of the main thread,
    which alone can be interrupted, nothing is watched.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    over = threading.Event()
    before = signal.signal(_SIGNAL, _leave)
    threading.Thread(target=_watch, args=(problem, poll_s, over), name="watch", daemon=True).start()
    try:
        yield
    finally:
        over.set()
        signal.signal(_SIGNAL, before)


def server_problem(api_url: str) -> Callable[[], str | None]:
    """A function that says whether the server at ``api_url`` has gone, to be called again and again."""
    local = server.find()
    ours = local if local is not None and local.api_url == api_url else None
    answered_s = time.monotonic()

    def problem() -> str | None:
        nonlocal answered_s
        if ours is not None and ours.process() is None:
            return f"the Prefect server (process {ours.pid}) has gone"
        if server.answers(api_url):
            answered_s = time.monotonic()
        silent_s = time.monotonic() - answered_s
        return f"{api_url} gives no answer for {silent_s:.0f} s" if silent_s > PATIENCE_S else None

    return problem


def children_problem(names: Collection[str]) -> Callable[[], str | None]:
    """A function that says which of this process' children, by the names of their programs, has gone."""
    found = [child for child in psutil.Process().children(recursive=True) if child.name() in names]

    def problem() -> str | None:
        for child in found:
            if not child.is_running() or child.status() == psutil.STATUS_ZOMBIE:
                return f"a process of Ray (process {child.pid}) has gone; is memory short?"
        return None

    return problem


def _watch(problem: Callable[[], str | None], poll_s: float, over: threading.Event) -> None:
    while not over.wait(poll_s):
        if found := _found(problem):
            complain(f"{found}; run the same command again: finished stages and shards are kept")
            _silence()
            signal.pthread_kill(threading.main_thread().ident or 0, _SIGNAL)
            time.sleep(_GRACE_S)
            _end()


def _found(problem: Callable[[], str | None]) -> str | None:
    try:
        return problem()
    except psutil.NoSuchProcess as error:  # between two looks at it
        return f"process {error.pid} has gone"


def _leave(_signal: int, _frame: FrameType | None) -> None:
    sys.exit(ReasonloopError.exit_code)


def _silence() -> None:
    """What other threads still say of the same server is not for the console."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123 - a device
        for descriptor in (1, 2):
            os.dup2(nowhere.fileno(), descriptor)


def _end() -> None:
    children = psutil.Process().children(recursive=True)
    for child in children:
        child.kill()
    psutil.wait_procs(children, timeout=_GRACE_S)
    os._exit(ReasonloopError.exit_code)
