"""One start of an engine: all its processes, and its log.

The engine runs under `subreaper`, in a session of its own, so that neither Ctrl-C in the terminal
nor the death of this process leaves a part of it running.
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

from pipeline_lib.engines.known.engine import Launch
from pipeline_lib.errors import ReasonloopError

GRACE_S = 10.0
"""Time for an engine to end by itself after SIGTERM."""
_KILL_TIMEOUT_S = 20.0
_SUBREAPER = pathlib.Path(__file__).with_name("subreaper.py")
_TAIL_BYTES = 64 * 1024
_LOG_BYTES = 4096
"""A block of a file system: with less room, nothing can be added to a log."""
_TAIL_LINES = 3
_LINE_CHARACTERS = 240
_TERMINAL_CODES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class EngineProcess:
    """A started engine. `stop` or `kill` must be called, also after it has ended by itself."""

    def __init__(self, engine: str, launch: Launch, log: pathlib.Path) -> None:
        """Start it; its output is appended to ``log``."""
        self.engine = engine
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        # For its sockets, which it does not unlink when killed.
        self.scratch = tempfile.mkdtemp(prefix="reasonloop-engine-")
        self._ended = False
        order = {
            "parent": os.getpid(),
            "command": launch.command,
            "environment": dict(launch.environment),
            "scratch": self.scratch,
            "grace_s": GRACE_S,
        }
        with log.open("ab") as stream:
            self._log_start = stream.tell()
            self._subreaper = subprocess.Popen(  # noqa: S603 - a fixed script
                # -I: names in the script's folder would shadow other modules.
                [sys.executable, "-I", str(_SUBREAPER), json.dumps(order)],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def session(self) -> int:
        """Session id of its processes: the subreaper's process id."""
        return self._subreaper.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; 128 + N if signal N ended it."""
        code = self._subreaper.poll()
        return code if code is None or code >= 0 else 128 - code

    @property
    def exit_summary(self) -> str:
        """Exit code or signal, and the end of the log; only after it has ended."""
        code = self.exit_code or 0
        how = f"was killed by signal {code - 128}" if code > 128 else f"ended with exit code {code}"
        return f"{how}: {self.log_tail()}"

    @property
    def processes(self) -> list[psutil.Process]:
        """All of its processes except the subreaper, also in sessions of their own."""
        try:
            return psutil.Process(self.session).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def stop(self) -> None:
        """End it by SIGTERM, after a grace period by SIGKILL. ReasonloopError: a process of it is left."""
        self._end(signal.SIGTERM, GRACE_S + _KILL_TIMEOUT_S)

    def kill(self) -> None:
        """End it at once, for an engine that hangs. Raises as `stop` does."""
        self._end(signal.SIGQUIT, _KILL_TIMEOUT_S)

    def _end(self, number: signal.Signals, timeout_s: float) -> None:
        if self._ended:
            # The session id may have been reused since.
            return
        # A stopped process (SIGSTOP) handles no signal but SIGKILL before SIGCONT.
        self._subreaper.send_signal(signal.SIGCONT)
        self._subreaper.send_signal(number)
        try:
            self._subreaper.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._subreaper.kill()
            self._subreaper.wait()
        self._kill_leftovers()
        self._ended = True

    def _kill_leftovers(self) -> None:
        """Kill processes of its session that outlived a killed subreaper."""
        left = [one for one in psutil.process_iter() if _session_of(one) == self.session]
        for process in left:
            process.kill()
        _, left = psutil.wait_procs(left, timeout=_KILL_TIMEOUT_S)
        shutil.rmtree(self.scratch, ignore_errors=True)
        if left:
            shown = ", ".join(str(process.pid) for process in left)
            raise ReasonloopError(
                f"processes {shown} of an engine cannot be killed; see {self.log}"
            )

    def log_tail(self) -> str:
        """The last lines of its output in one line, lines with errors preferred, and the log's path."""
        lines = [" ".join(line.split()) for line in self.output().splitlines()]
        errors = [line for line in lines if "Error" in line or "error:" in line]
        shown = [line[-_LINE_CHARACTERS:] for line in (errors or lines) if line][-_TAIL_LINES:]
        full = shutil.disk_usage(self.log).free < _LOG_BYTES
        silent = "no space left for its log" if full else "it printed nothing"
        return f"{' | '.join(shown) or silent} (all of it: {self.log})"

    def output(self) -> str:
        """The last 64 KiB of its output."""
        with self.log.open("rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(self._log_start, stream.tell() - _TAIL_BYTES))
            return _TERMINAL_CODES.sub("", stream.read().decode("utf-8", "replace"))


def _session_of(process: psutil.Process) -> int | None:
    try:
        # A zombie holds no resources.
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return os.getsid(process.pid)
    except (ProcessLookupError, psutil.NoSuchProcess):
        return None
