"""One start of an engine: its processes from the first to the last, and its log.

The engine runs under `guard`, in a session of its own, so that neither a Ctrl-C in the
terminal nor the death of this process leaves it half alive.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import psutil

from pipeline_lib.errors import ReasonloopError
from pipeline_lib.serving.engines.engine import Launch
from pipeline_lib.serving.supervisor import gpu_memory

GRACE_S = 10.0
"""How long an engine may take to end by itself after SIGTERM."""
_KILL_TIMEOUT_S = 20.0
_SUBREAPER = pathlib.Path(__file__).with_name("subreaper.py")
_TAIL_BYTES = 64 * 1024
_TAIL_LINES = 3
_LINE_CHARACTERS = 240
_TERMINAL_CODES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class EngineProcess:
    """A started engine. `stop` or `kill` must be called, even when it has ended by itself."""

    def __init__(self, engine: str, launch: Launch, log: pathlib.Path) -> None:
        """Start it; what it prints is added to ``log``."""
        self.engine = engine
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        # For its sockets, which it does not unlink when it is killed.
        self._scratch = tempfile.mkdtemp(prefix="reasonloop-engine-")
        self._ended = False
        order = {
            "parent": os.getpid(),
            "command": launch.command,
            "environment": dict(launch.environment),
            "scratch": self._scratch,
            "grace_s": GRACE_S,
        }
        with log.open("ab") as stream:
            self._log_start = stream.tell()
            self._guard = subprocess.Popen(  # noqa: S603 - our own script, our own interpreter
                # -I: the script's own folder holds modules that are named like others.
                [sys.executable, "-I", str(_SUBREAPER), json.dumps(order)],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def session(self) -> int:
        """The session of its processes, which is the guard's process id."""
        return self._guard.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; 128 + N if signal N ended it."""
        code = self._guard.poll()
        return code if code is None or code >= 0 else 128 - code

    @property
    def ending(self) -> str:
        """How it ended, for a person; only once it has."""
        code = self.exit_code or 0
        how = f"was killed by signal {code - 128}" if code > 128 else f"ended with exit code {code}"
        return f"{how}: {self.last_words()}"

    @property
    def processes(self) -> list[psutil.Process]:
        """All of its live processes but the guard."""
        found = {process.pid: process for process in self._session()}
        try:
            # A child may have made a session of its own.
            for process in psutil.Process(self.session).children(recursive=True):
                found[process.pid] = process
        except psutil.NoSuchProcess:
            pass
        found.pop(self.session, None)
        return list(found.values())

    def _session(self) -> list[psutil.Process]:
        """The live processes of its session, found even when the guard is gone."""
        return [p for p in psutil.process_iter() if _session_of(p) == self.session]

    def stop(self) -> None:
        """End it: it is asked first, and killed if it does not.

        Raises:
            ReasonloopError: a process of it, or memory of a GPU that it held, is left.
        """
        self._end(signal.SIGTERM, GRACE_S + _KILL_TIMEOUT_S)

    def kill(self) -> None:
        """End it at once, as one that hangs must be. Raises as `stop` does."""
        self._end(signal.SIGQUIT, _KILL_TIMEOUT_S)

    def _end(self, number: signal.Signals, timeout_s: float) -> None:
        if self._ended:
            # The number of its session may be somebody else's by now.
            return
        pids = {process.pid for process in self.processes}
        # One that was stopped (SIGSTOP) takes no signal but SIGKILL until it is continued.
        self._guard.send_signal(signal.SIGCONT)
        self._guard.send_signal(number)
        try:
            self._guard.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            self._guard.wait()
        self._sweep()
        self._ended = True
        if held := gpu_memory.still_held_by(pids):
            raise ReasonloopError(
                f"{held}; it was held by an engine that has ended; see {self.log}"
            )

    def _sweep(self) -> None:
        """What is left where the guard itself was killed."""
        left = self._session()
        for process in left:
            process.kill()
        _, left = psutil.wait_procs(left, timeout=_KILL_TIMEOUT_S)
        shutil.rmtree(self._scratch, ignore_errors=True)
        if left:
            shown = ", ".join(str(process.pid) for process in left)
            raise ReasonloopError(
                f"processes {shown} of an engine cannot be killed; see {self.log}"
            )

    def last_words(self) -> str:
        """The end of what it printed, errors first of all, in one line, and where the rest is."""
        with self.log.open("rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(self._log_start, stream.tell() - _TAIL_BYTES))
            text = stream.read().decode("utf-8", "replace")
        lines = [" ".join(_TERMINAL_CODES.sub("", line).split()) for line in text.splitlines()]
        telling = [line for line in lines if "Error" in line or "error:" in line]
        shown = [line[-_LINE_CHARACTERS:] for line in (telling or lines) if line][-_TAIL_LINES:]
        return f"{' | '.join(shown) or 'it printed nothing'} (all of it: {self.log})"


def _session_of(process: psutil.Process) -> int | None:
    try:
        # One that is dead and not yet waited for holds nothing.
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return os.getsid(process.pid)
    except (ProcessLookupError, psutil.NoSuchProcess):
        return None
