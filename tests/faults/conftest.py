"""Tiny runs of the real command in processes that are killed, and what may be left of them."""

import pathlib
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import psutil
import pytest

from benchmarks.lib.repository import REPOSITORY
from pipeline_lib.telemetry import read_events
from tests.faults.processes import MARK, marked, wait_until_gone
from tests.faults.workspaces import THREADS, TINY, assert_whole, copy_until, sealed_files

# Fixtures of the session: the server, the command.
from tests.flows.conftest import Command, prefect_server, reasonloop  # noqa: F401

DEADLINE_S = 240.0
"""For a run of seconds, on a machine that does other work."""


@dataclass(frozen=True)
class Started:
    """A command in a process, with files for its output."""

    process: subprocess.Popen[bytes]
    mark: str
    folder: pathlib.Path

    @property
    def stderr(self) -> str:
        return (self.folder / "stderr").read_text("utf-8", errors="replace")

    def wait(self, timeout_s: float = DEADLINE_S) -> int:
        return self.process.wait(timeout_s)

    def until(self, reached: Callable[[], object], *, timeout_s: float = DEADLINE_S) -> None:
        """Wait for a state of the run, and fail if the run ends before."""
        deadline = time.monotonic() + timeout_s
        while not reached():
            assert self.process.poll() is None, (
                f"ended with {self.process.returncode}: {self.stderr}"
            )
            assert time.monotonic() < deadline, "not reached"
            time.sleep(0.01)

    def left(self) -> list[psutil.Process]:
        """Processes of this start that are alive."""
        return marked(self.mark)

    def left_after(self, timeout_s: float) -> list[str]:
        """Names of those that are still alive after ``timeout_s``; returns once there is none."""
        return wait_until_gone(self.mark, timeout_s=timeout_s)


@dataclass
class Starter:
    """Starts the command; all of its processes are killed at the end of the test."""

    reasonloop: Command
    folder: pathlib.Path
    started: list[Started] = field(default_factory=list)

    def __call__(
        self,
        *arguments: str | pathlib.Path,
        die_at: tuple[str, str] | None = None,
        **environment: str | None,
    ) -> Started:
        """Start ``reasonloop ARGUMENTS``; a variable of None is unset."""
        mark = uuid.uuid4().hex
        folder = self.folder / str(len(self.started))
        folder.mkdir(parents=True)
        argv = self.reasonloop.argv(*arguments)
        if die_at is not None:
            argv[2:2] = ["tests.faults.die_at", *die_at]
        own = {**self.reasonloop.environment, MARK: mark, **environment}
        with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
            process = subprocess.Popen(
                argv,
                cwd=REPOSITORY,
                env={name: value for name, value in own.items() if value is not None},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        self.started.append(Started(process=process, mark=mark, folder=folder))
        return self.started[-1]

    def run(self, workspace: pathlib.Path, *more: str, **options: str | None) -> Started:
        """Start a tiny run."""
        return self("run", "--workspace", workspace, *TINY, *more, **options)

    def sampling(
        self, root: pathlib.Path, unbroken: pathlib.Path, *more: str, **options: str | None
    ) -> Started:
        """A tiny run in the middle of its sampling; the stages before are those of ``unbroken``."""
        copy_until("sample", unbroken, root)
        run = self.run(root, *more, **options)
        run.until(
            lambda: any(e["event"] == "work" and e["stage"] == "sample" for e in read_events(root))
        )
        return run

    def resume(
        self,
        root: pathlib.Path,
        unbroken: pathlib.Path,
        api_url: str,
        *more: str,
        **options: str | None,
    ) -> None:
        """Run the same command again: nothing that is sealed is made again, and the run is whole."""
        sealed = sealed_files(root)
        again = self.run(root, *more, **options)
        assert again.wait() == 0, again.stderr
        assert again.left_after(15) == []
        assert sealed.items() <= sealed_files(root).items()
        assert_whole(root, unbroken, api_url)

    def end(self) -> None:
        for one in self.started:
            for process in one.left():
                process.kill()
            one.process.wait()


@pytest.fixture
def start(reasonloop, tmp_path) -> Iterator[Starter]:  # noqa: F811 - a fixture
    """Starts commands with the session's server."""
    # A shell starts background processes with SIGINT ignored, and children inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    starter = Starter(reasonloop, tmp_path / "output")
    yield starter
    starter.end()
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def unbroken(reasonloop, tmp_path_factory) -> pathlib.Path:  # noqa: F811 - a fixture
    """The workspace of a tiny run on threads that nothing has broken."""
    workspace = tmp_path_factory.mktemp("unbroken")
    done = reasonloop("run", "--workspace", workspace, *TINY, *THREADS)
    assert done.returncode == 0, done.stderr
    return workspace
