"""The process of a PaCoRe worker, started again when the master that it has lost is back; without importing Ray.

Ray ends a process whose cluster has ended, so the command of a worker only watches the process that has joined.
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.synchronize import Event

from flows.ray.pacore_master import Master
from flows.run.failures import errors_as_lines
from flows.run.terminal import say
from pipeline_lib.errors import ReasonloopError

_POLL_S = 1.0


def serve_and_rejoin(serve: Callable[[Event], None], master: Master, *, patience_s: float) -> None:
    """Run ``serve`` in a process; again, for ``patience_s``, once it had served and its master has ended.

    ``serve`` sets the flag when it takes calls. SIGTERM and Ctrl-C end the process first. Exits with its exit code.
    """
    spawning = multiprocessing.get_context("spawn")
    deadline = 0.0
    while True:
        served = spawning.Event()
        process = spawning.Process(target=_serve, args=(serve, served))
        process.start()
        try:
            process.join()
        except BaseException:
            process.terminate()
            try:
                process.join()
            except BaseException:
                process.kill()
                raise
            raise
        code = process.exitcode or 0
        if served.is_set():
            deadline = time.monotonic() + patience_s
        if code != ReasonloopError.exit_code or time.monotonic() >= deadline:
            sys.exit(code if code >= 0 else 128 - code)
        say(f"joins the master at {master.address} again when it is back, for {patience_s:g} s")
        time.sleep(_POLL_S)
        while not master.answers() and time.monotonic() < deadline:
            time.sleep(_POLL_S)


def _serve(serve: Callable[[Event], None], served: Event) -> None:
    # The command turns Ctrl-C into SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_command, daemon=True).start()
    with errors_as_lines():
        serve(served)


def _end_with_command() -> None:
    command = multiprocessing.parent_process()
    assert command is not None
    command.join()
    os.kill(os.getpid(), signal.SIGKILL)
