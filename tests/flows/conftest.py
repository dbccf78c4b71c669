"""Runs of the real command, in separate processes, against one real Prefect server."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import pytest
from prefect import get_client
from prefect.settings import PREFECT_API_URL, temporary_settings

from benchmarks.lib.recorded_paths import write_paths, write_problems
from benchmarks.lib.repository import REPOSITORY
from flows.cli.app import main
from flows.server import server
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.systems.loop.stages import LOOP
from tests.flows import smoke_runs
from tests.flows.dvc_repositories import Checkout, copy_repository, stages_in
from tests.flows.fork_server import Forked, ForkServer
from tests.made_once import made_once, used_together
from tests.waiting import until

RUN_TIMEOUT_S = 600
SAME_KERNELS = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_CBWR": "COMPATIBLE",  # of all branches the only one that AMD and Intel share
    "ONEDNN_MAX_CPU_ISA": "AVX2",
}
"""Makes runs bit-identical on different processors with AVX2."""


@dataclass(frozen=True)
class Command:
    """The `reasonloop` command with its own environment."""

    environment: dict[str, str]
    forks: ForkServer

    def argv(self, *arguments: str | pathlib.Path) -> list[str]:
        return [sys.executable, "-m", "flows.cli", *map(str, arguments)]

    def __call__(self, *arguments: str | pathlib.Path) -> subprocess.CompletedProcess[str]:
        return self.forks.run(self.argv(*arguments)[1:], timeout_s=RUN_TIMEOUT_S)

    def started(self, *arguments: str | pathlib.Path) -> Forked:
        """The command, without its output, in a process group of its own."""
        with pathlib.Path(os.devnull).open("wb") as nowhere:
            return self.forks.python(
                self.argv(*arguments)[1:],
                stdout=nowhere,
                stderr=nowhere,
                start_new_session=True,
            )

    def killed_when(self, reached: Callable[[], bool], *arguments: str | pathlib.Path) -> None:
        """Start the command, and end all its processes with SIGKILL once ``reached`` is true."""
        process = self.started(*arguments)
        try:
            until(reached, process=process)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[server.LocalServer]:
    """A local server with its own database, for all processes of the test session."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PREFECT_API_URL", raising=False)

        def start(state: pathlib.Path) -> None:
            patch.setenv("REASONLOOP_STATE", str(state))
            server.ensure()

        with used_together(tmp_path_factory, "state", start, lambda _: server.stop()):
            found = server.find()
            assert found is not None
            yield found


@pytest.fixture(scope="session")
def reasonloop(prefect_server, tmp_path_factory) -> Iterator[Command]:
    """The command with the session's server in its environment, as for a user."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT", "RAY"))}
    environment |= SAME_KERNELS
    environment["PREFECT_HOME"] = str(tmp_path_factory.mktemp("prefect-home"))
    environment["PREFECT_API_URL"] = prefect_server.api_url

    def start(folder: pathlib.Path) -> None:
        if not ForkServer(folder).is_running:
            # The command sets these before it imports Prefect, which the forks have imported already.
            ForkServer(folder).start(environment | server.QUIET_ENVIRONMENT)

    with used_together(
        tmp_path_factory, "forks", start, lambda folder: ForkServer(folder).stop()
    ) as folder:
        yield Command(environment, ForkServer(folder))


@pytest.fixture
def spawn(reasonloop, tmp_path) -> Iterator[Callable[..., "subprocess.Popen[bytes]"]]:
    """Start the command in a process group of its own, its output in ``log``; killed at the end of the test."""
    started = []

    def start(*arguments: str | pathlib.Path) -> "subprocess.Popen[bytes]":
        log = tmp_path / f"output-{len(started)}"
        with log.open("wb") as output:
            process = subprocess.Popen(
                reasonloop.argv(*arguments),
                cwd=REPOSITORY,
                env=reasonloop.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        process.log = log
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def client(prefect_server):
    """A client of the session's server."""
    with (
        temporary_settings({PREFECT_API_URL: prefect_server.api_url}),
        get_client(sync_client=True) as found,
    ):
        yield found


Called = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def called(capsys, monkeypatch) -> Called:
    """The command in this process, for what starts no flow: a process of its own takes 2 to 5 s.

    A flow would be refused, since no server answers at the address.
    """
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")

    def call(*arguments: str | pathlib.Path) -> subprocess.CompletedProcess[str]:
        before = signal.getsignal(signal.SIGTERM)
        try:
            with pytest.raises(SystemExit) as stopped:
                main([*map(str, arguments)])
        finally:
            signal.signal(signal.SIGTERM, before)
        return subprocess.CompletedProcess(arguments, stopped.value.code or 0, *capsys.readouterr())

    return call


@pytest.fixture
def refused(called) -> Callable[..., str]:
    """The one line on stderr of a command that ends with an exit code."""

    def line_of(*arguments: str | pathlib.Path, code: int = 2) -> str:
        done = called(*arguments)
        assert done.returncode == code, done.stderr
        [line] = done.stderr.splitlines()
        return str(line)

    return line_of


@pytest.fixture(scope="session")
def finished_run(reasonloop, tmp_path_factory) -> pathlib.Path:
    """The workspace of an uninterrupted smoke run on threads."""
    workspace = tmp_path_factory.mktemp("finished")
    done = reasonloop("run", "--workspace", workspace, "--profile", "smoke", "--runner", "thread")
    assert done.returncode == 0, done.stderr + done.stdout
    (workspace / "stdout.txt").write_text(done.stdout, encoding="utf-8")
    return workspace


@pytest.fixture(scope="session")
def two_rounds(reasonloop, finished_run, tmp_path_factory) -> pathlib.Path:
    """The workspace of a smoke run on Ray: two rounds of SFT, worked solutions among their rows.

    From problems and base of the finished run, whose keys are the same.
    """
    workspace = tmp_path_factory.mktemp("two-rounds")
    for part in ("data/problems", "models/base"):
        shutil.copytree(finished_run / part, workspace / part)
    done = reasonloop(
        *("run", "--workspace", workspace, "--profile", "smoke", "--runner", "ray"),
        *("--set", "rounds=2", "--set", "train.method=sft", "--set", "train.steps=4"),
        *("--set", "train.lr=0.002", "--set", "build.worked_solutions=true"),
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return workspace


@pytest.fixture(scope="session")
def apr_run(reasonloop, tmp_path_factory) -> pathlib.Path:
    """The workspace of an uninterrupted run of APR; a test that changes it works on a copy."""

    def make(root: pathlib.Path) -> None:
        done = reasonloop("apr", "run", "--workspace", root, *smoke_runs.APR)
        assert done.returncode == 0, done.stderr + done.stdout
        assert "parallel" in done.stdout

    return made_once(tmp_path_factory, "apr", make)


@pytest.fixture(scope="session")
def pacore_run(reasonloop, finished_run, tmp_path_factory) -> pathlib.Path:
    """The workspace of an uninterrupted run of PaCoRe; a test that changes it works on a copy."""
    root = tmp_path_factory.mktemp("pacore")
    done = reasonloop("pacore", "run", "--workspace", root, *smoke_runs.pacore(finished_run))
    assert done.returncode == 0, done.stderr + done.stdout
    assert "rounds 2,1 model=synthesizer" in done.stdout
    return root


@pytest.fixture(scope="session")
def classmate_run(reasonloop, tmp_path_factory) -> pathlib.Path:
    """The workspace of an uninterrupted run of Classmate on threads."""

    def make(root: pathlib.Path) -> None:
        settings = ("--runner", "thread", *smoke_runs.CLASSMATE)
        done = reasonloop("classmate", "run", "--workspace", root, *settings)
        assert done.returncode == 0, done.stderr + done.stdout
        assert "Gains over plain, corrected for several tests: none." in done.stdout

    return made_once(tmp_path_factory, "classmate", make)


@pytest.fixture(scope="session")
def reproduced(reasonloop, tmp_path_factory) -> Checkout:
    """A repository with imported raw data, in which `dvc repro` has run all stages, committed."""
    made = copy_repository(tmp_path_factory.mktemp("repository"), reasonloop.environment)
    raw = tmp_path_factory.mktemp("downloads") / "notes"
    raw.mkdir()
    (raw / "notes.txt").write_text("not read: the problems of the smoke profile are generated\n")
    made.reasonloop("data", "import", str(raw))
    assert stages_in(made.dvc("repro")) == {stage.name for stage in LOOP.stages}
    made.commit("a run")
    return made


@pytest.fixture(scope="session")
def recorded_paths(tmp_path_factory) -> pathlib.Path:
    """A workspace of 80,000 paths in four shards, which take a while to be verified."""
    workspace = Workspace(tmp_path_factory.mktemp("recorded"))
    write_problems(workspace.problems("train"), 8000)
    write_paths(workspace.round_folders(1).paths, problems=8000, paths_each=10, shard_size=2000)
    return workspace.root
