"""Commands that serve, in forks of the session's fork server; the packages as a wheel."""

import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import psutil
import pytest

from benchmarks.lib.repository import REPOSITORY
from tests.flows.fork_server import ForkServer
from tests.waiting import until

GIVE_UP_S = 120.0


class Serving:
    """A command that serves: started, and ready."""

    def __init__(self, forks: ForkServer, folder: pathlib.Path, *arguments: object) -> None:
        self._stdout, self._stderr = folder / "stdout", folder / "stderr"
        with self._stdout.open("wb") as stdout, self._stderr.open("wb") as stderr:
            self.process = forks.python(
                ["-m", "flows.cli", *map(str, arguments)],
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        self.wait_for("serving")

    @property
    def lines(self) -> list[str]:
        """What it has printed."""
        return self._stdout.read_text("utf-8").splitlines()

    def wait_for(self, begin: str) -> str:
        """The first line that begins so."""
        try:
            until(lambda: any(line.startswith(begin) for line in self.lines), process=self.process)
        except AssertionError as error:
            raise AssertionError(self._stderr.read_text("utf-8")) from error
        return next(line for line in self.lines if line.startswith(begin))

    @property
    def family(self) -> list[psutil.Process]:
        """Its processes."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def end(self, number: int) -> tuple[int, str]:
        """Exit code and standard error after a signal."""
        self.process.send_signal(number)
        return self.process.wait(GIVE_UP_S), self._stderr.read_text("utf-8")


@pytest.fixture(scope="module")
def serve(reasonloop, tmp_path_factory) -> Iterator[Callable[..., Serving]]:
    """Start a command that serves; what still runs at the end is stopped."""
    started: list[Serving] = []

    def start(*arguments: object, kind: type[Serving] = Serving) -> Serving:
        started.append(kind(reasonloop.forks, tmp_path_factory.mktemp("serve"), *arguments))
        return started[-1]

    yield start
    for serving in started:
        if serving.process.poll() is None:
            serving.end(signal.SIGTERM)


PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
OFFLINE = ("--no-deps", "--no-index")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory) -> pathlib.Path:
    """The wheel of the tracked files as they are now."""
    copy, folder = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    names = (
        "reasonloop",
        "flows",
        "tasks",
        "pipeline_lib",
        "pyproject.toml",
        "README.md",
        "LICENSE",
    )
    tracked = subprocess.run(
        ["git", "ls-files", "-z", *names],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    for name in filter(None, tracked):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes((REPOSITORY / name).read_bytes())
    build = [*PIP, "wheel", *OFFLINE, "--no-build-isolation", "--wheel-dir", folder, copy]
    subprocess.run(build, check=True)
    return next(folder.iterdir())


@pytest.fixture(scope="session")
def installed(wheel, tmp_path_factory) -> pathlib.Path:
    """The packages as the wheel installs them, without the libraries."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([*PIP, "install", *OFFLINE, "--target", folder, wheel], check=True)
    return folder
