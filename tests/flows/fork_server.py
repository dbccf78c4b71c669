"""Runs the command in forks of one process that has imported it, as a new process would for 2 to 5 CPU seconds."""

import contextlib
import gc
import importlib
import json
import os
import pathlib
import pkgutil
import select
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from flows.cli.app import main
from pipeline_lib.repository import REPOSITORY

MAIN = "flows.cli.__main__"
MODEL = "transformers.models.llama.modeling_llama"
"""Loaded by name, so that no import of the product leads to it."""


class ForkServer:
    """A process with the modules of the command, which it runs in a fork for each call."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            cwd=REPOSITORY,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self, arguments: Sequence[str], *, timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """The command with its exit code and its output.

        Raises:
            TimeoutError: it did not end in time, and was killed.
        """
        with tempfile.TemporaryDirectory() as folder:
            outputs = [pathlib.Path(folder, name) for name in ("stdout", "stderr")]
            self._write(json.dumps([[*arguments], [*map(str, outputs)]]))
            pid = int(self._read(timeout_s))
            try:
                code = int(self._read(timeout_s))
            except TimeoutError:
                os.kill(pid, 9)
                raise
            texts = [output.read_text("utf-8") for output in outputs]
        return subprocess.CompletedProcess(arguments, code, *texts)

    def stop(self) -> None:
        """End the process."""
        self._process.communicate()

    def _write(self, line: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def _read(self, timeout_s: float) -> str:
        assert self._process.stdout
        ready, _, _ = select.select([self._process.stdout], [], [], timeout_s)
        if not ready:
            raise TimeoutError(f"no end after {timeout_s:.0f} s")
        return self._process.stdout.readline()


def import_all() -> None:
    """Import every module of the command, and what it loads by name."""
    for package in map(importlib.import_module, ("flows", "tasks")):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if found.name != MAIN:
                importlib.import_module(found.name)
    importlib.import_module(MODEL)


def serve() -> None:
    """Read commands from stdin, a line each; write the process id of each, then its exit code."""
    import_all()
    gc.freeze()
    for line in sys.stdin:
        arguments, outputs = json.loads(line)
        if (pid := os.fork()) == 0:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for descriptor, path in enumerate(outputs, start=1):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
            sys.argv[1:] = arguments
            sys.exit(main(arguments))
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        serve()
