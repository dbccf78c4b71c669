"""Fan-out over shards: bounded, in order, ended by the first failure."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from prefect import flow, task
from prefect.settings import (
    PREFECT_API_URL,
    PREFECT_HOME,
    PREFECT_LOGGING_TO_API_ENABLED,
    temporary_settings,
)

from flows.parallel.fan_out import Chain, map_bounded, result_of
from flows.ray.runners import (
    SHARDS_PER_WORKER,
    _ray_options,
    asking_for,
    cluster,
    shards_in_flight,
    task_runner,
)
from pipeline_lib.params.whole import ExecutionParams

GIVE_UP_S = 60.0
"""Time limit of a hanging test."""


@pytest.fixture(scope="module")
def on_server(prefect_server, tmp_path_factory) -> Iterator[None]:
    """Flows of this process use the session's server."""
    settings = {
        PREFECT_API_URL: prefect_server.api_url,
        PREFECT_HOME: tmp_path_factory.mktemp("home"),
        # Logs are sent in the background, to a server that is stopped when the session ends.
        PREFECT_LOGGING_TO_API_ENABLED: False,
    }
    with pytest.MonkeyPatch.context() as patch, temporary_settings(settings):
        patch.setenv("PREFECT_API_URL", prefect_server.api_url)
        yield


@pytest.fixture(scope="module", params=["thread", pytest.param("ray", marks=pytest.mark.slow)])
def execution(request, on_server) -> Iterator[ExecutionParams]:
    """Two workers, as threads and as Ray processes."""
    execution = ExecutionParams(runner=request.param, workers=2)
    with cluster(execution):
        yield execution


@dataclass
class Jobs:
    """An iterable that records, whenever an item is taken, how many files tell of finished ones."""

    folder: pathlib.Path
    count: int
    files: str = "*"
    done_when_taken: list[int] = field(default_factory=list)

    def __iter__(self) -> Iterator[tuple[pathlib.Path, int]]:
        for number in range(self.count):
            self.done_when_taken.append(len(list(self.folder.glob(self.files))))
            yield self.folder, number


@task
def squared(job: tuple[pathlib.Path, int]) -> int:
    folder, number = job
    (folder / str(number)).touch()
    return number * number


def mapped(some_task, items, execution, *, in_flight):
    """The results of a flow that only maps."""

    @flow(task_runner=task_runner(execution))
    def fan_out():
        return map_bounded(some_task, items, in_flight=in_flight)

    return fan_out()


@pytest.mark.parametrize("in_flight", [1, 3])
def test_bounded_and_in_order(execution, tmp_path, in_flight):
    """Each of 12 items is taken only while fewer than ``in_flight`` earlier ones are unfinished."""
    jobs = Jobs(tmp_path, 12)
    assert mapped(squared, jobs, execution, in_flight=in_flight) == [n * n for n in range(12)]
    assert len(jobs.done_when_taken) == 12
    assert all(done > n - in_flight for n, done in enumerate(jobs.done_when_taken))


def test_nothing_to_map(execution):
    """No items, no results."""
    assert mapped(squared, [], execution, in_flight=2) == []


@task
def first_waits_for_last(job: tuple[pathlib.Path, int]) -> int:
    folder, number = job
    deadline = time.monotonic() + GIVE_UP_S
    while number == 0 and not (folder / "7").exists():
        assert time.monotonic() < deadline, "the last item was never submitted"
        time.sleep(0.01)
    (folder / str(number)).touch()
    return number


def test_a_slow_item_does_not_block_others(execution, tmp_path):
    """The first item ends only after the last: any finished item frees a place, not only the oldest."""
    jobs = [(tmp_path, number) for number in range(8)]
    assert mapped(first_waits_for_last, jobs, execution, in_flight=2) == list(range(8))


@task
def third_fails(job: tuple[pathlib.Path, int]) -> int:
    folder, number = job
    if number == 2:
        raise ValueError("the third is bad")
    (folder / str(number)).touch()
    return number


def test_the_first_failure_ends_the_flow(execution, tmp_path):
    """It is raised unchanged, finished items are kept, and few further ones are submitted."""
    jobs = Jobs(tmp_path, 50)
    with pytest.raises(ValueError, match="the third is bad"):
        mapped(third_fails, jobs, execution, in_flight=1)
    assert len(jobs.done_when_taken) == 3
    assert {path.name for path in tmp_path.iterdir()} == {"0", "1"}


@task
def dies_once(job: tuple[pathlib.Path, int]) -> int:
    folder, number = job
    mark = folder / "died"
    if number == 1 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.fault("Ray worker killed", "continues")
def test_a_dead_worker_loses_no_result(execution, tmp_path):
    """Ray runs the task of a killed worker again; the order of results is kept."""
    if execution.runner == "thread":
        pytest.skip("a thread dies with its process")
    jobs = [(tmp_path, number) for number in range(6)]
    assert mapped(dies_once, jobs, execution, in_flight=3) == list(range(6))


@task
def waits_for(file: pathlib.Path) -> None:
    deadline = time.monotonic() + GIVE_UP_S
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.1)


@pytest.mark.fault("SIGTERM while a stage is waited for", "cleaned up")
def test_sigterm_ends_the_wait_for_a_task(execution, tmp_path):
    """The handler's exception leaves the wait at once, also where the task runs on Ray."""
    go = tmp_path / "go"

    @flow(task_runner=task_runner(execution))
    def waits():
        future = waits_for.submit(go)
        threading.Timer(3, os.kill, (os.getpid(), signal.SIGTERM)).start()
        try:
            result_of(future)
        finally:
            go.touch()

    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as the command does
    began = time.monotonic()
    with pytest.raises(SystemExit):
        waits()
    signal.signal(signal.SIGTERM, before)
    assert time.monotonic() - began < GIVE_UP_S / 2


@task
def noted_first(job: tuple[pathlib.Path, int]) -> tuple[pathlib.Path, int]:
    folder, number = job
    (folder / f"first-{number}").touch()
    return folder, number


@task
def noted_second(job: tuple[pathlib.Path, int]) -> int:
    folder, number = job
    assert (folder / f"first-{number}").exists()
    (folder / f"second-{number}").touch()
    return number * number


def chained(first, second, items, execution, *, in_flight, between=lambda: None):
    """The results of a flow that only chains."""

    @flow(task_runner=task_runner(execution))
    def fan_out():
        chain = Chain(first.submit, second.submit, in_flight=in_flight)
        firsts = chain.first_results(items)
        between()
        return firsts, chain.second_results()

    return fan_out()


@pytest.mark.parametrize("in_flight", [1, 4])
def test_a_chain_is_bounded_and_in_order(execution, tmp_path, in_flight):
    """An item is taken only while fewer than ``in_flight`` earlier ones lack their second result."""
    jobs = Jobs(tmp_path, 12, "second-*")
    firsts, seconds = chained(noted_first, noted_second, jobs, execution, in_flight=in_flight)
    assert [number for _, number in firsts] == list(range(12))
    assert seconds == [number * number for number in range(12)]
    # An item is taken before there is room for it, so one more may be unfinished.
    assert all(done > n - in_flight - 1 for n, done in enumerate(jobs.done_when_taken))


@task
def last_waits_for_a_second(job: tuple[pathlib.Path, int]) -> tuple[pathlib.Path, int]:
    folder, number = job
    deadline = time.monotonic() + GIVE_UP_S
    while number == 7 and not (folder / "second-0").exists():
        assert time.monotonic() < deadline, "no second task before the end of the first ones"
        time.sleep(0.01)
    (folder / f"first-{number}").touch()
    return folder, number


def test_second_tasks_run_among_the_first(execution, tmp_path):
    """The last first task ends only after a second one has ended."""
    jobs = [(tmp_path, number) for number in range(8)]
    _, seconds = chained(last_waits_for_a_second, noted_second, jobs, execution, in_flight=4)
    assert seconds == [number * number for number in range(8)]


@task
def waits_for_the_end_of_sampling(job: tuple[pathlib.Path, int]) -> int:
    folder, number = job
    deadline = time.monotonic() + GIVE_UP_S
    while number == 3 and not (folder / "between").exists():
        assert time.monotonic() < deadline, "the first results came only after all second ones"
        time.sleep(0.01)
    return number


def test_first_results_do_not_wait_for_second_ones(execution, tmp_path):
    """What follows the first tasks, such as stopping an engine, runs beside the last second ones."""
    jobs = [(tmp_path, number) for number in range(4)]
    _, seconds = chained(
        *(noted_first, waits_for_the_end_of_sampling, jobs, execution),
        in_flight=4,
        between=(tmp_path / "between").touch,
    )
    assert seconds == [0, 1, 2, 3]


@task
def second_fails(job: tuple[pathlib.Path, int]) -> int:
    if job[1] == 0:
        raise ValueError("the second task is bad")
    return job[1]


def test_a_failed_second_task_ends_the_first_ones(execution, tmp_path):
    """Its failure is raised unchanged, long before all items are taken."""
    jobs = Jobs(tmp_path, 50, "second-*")
    with pytest.raises(ValueError, match="the second task is bad"):
        chained(noted_first, second_fails, jobs, execution, in_flight=4)
    # Other second tasks may end before the one that fails, and each makes room for one more item.
    assert len(jobs.done_when_taken) < jobs.count / 2


@task
def meets_three_others(job: tuple[pathlib.Path, int]) -> int:
    folder, number = job
    (folder / str(number)).touch()
    deadline = time.monotonic() + GIVE_UP_S
    while len(list(folder.iterdir())) < 4:
        assert time.monotonic() < deadline, "the four tasks do not run at the same time"
        time.sleep(0.01)
    return number


def test_waiting_tasks_take_no_worker(execution, tmp_path):
    """Two tasks that only wait, as for a server, run beside two others on two workers."""

    @flow(task_runner=task_runner(execution, waiting=2))
    def all_at_once():
        futures = [meets_three_others.submit((tmp_path, number)) for number in (0, 1)]
        with asking_for(execution, "sample", waits=True):
            futures += [meets_three_others.submit((tmp_path, number)) for number in (2, 3)]
        return [future.result() for future in futures]

    assert all_at_once() == [0, 1, 2, 3]


class StopRequested(BaseException):
    """Raised by a signal handler."""


class InterruptedTask:
    """A fake task that gets SIGTERM during its submission."""

    def __init__(self) -> None:
        self.submitted = []

    def submit(self, item):
        os.kill(os.getpid(), signal.SIGTERM)
        self.submitted.append(item)
        return self

    def add_done_callback(self, fn):
        fn(self)

    def result(self):
        return len(self.submitted)


def test_a_signal_waits_for_the_end_of_a_submission():
    """The handler's exception is raised unchanged, after this submission and before the next."""

    def stop(*_):
        raise StopRequested

    interrupted = InterruptedTask()
    before = signal.signal(signal.SIGTERM, stop)
    try:
        with pytest.raises(StopRequested):
            map_bounded(interrupted, ["first", "second"], in_flight=1)
        assert signal.getsignal(signal.SIGTERM) is stop
    finally:
        signal.signal(signal.SIGTERM, before)
    assert interrupted.submitted == ["first"]


def test_shards_in_flight(execution, monkeypatch):
    """Some per worker; on a running cluster its CPUs count, not the params."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    changed = execution.model_copy(update={"workers": 7})
    assert shards_in_flight(changed) == 7 * SHARDS_PER_WORKER
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    found = execution.workers if execution.runner == "ray" else 7
    assert shards_in_flight(changed) == found * SHARDS_PER_WORKER


LISTENERS = """
import psutil
from flows.ray.runners import cluster
from pipeline_lib.params.whole import ExecutionParams

with cluster(ExecutionParams(runner="ray", workers=1)):
    own = psutil.Process()
    pids = {own.pid, *(child.pid for child in own.children(recursive=True))}
    for socket in psutil.net_connections("tcp"):
        if socket.pid in pids and socket.status == psutil.CONN_LISTEN:
            print(socket.laddr.ip)
"""


def test_a_local_ray_listens_on_loopback_alone():
    """In a new process, since Ray reads the setting at its import."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    listening = subprocess.run(
        [sys.executable, "-c", LISTENERS],
        env=environment | {"PREFECT_API_URL": "http://127.0.0.1:9/api"},
        capture_output=True,
        text=True,
        check=True,
        timeout=GIVE_UP_S,
    ).stdout.split()
    assert set(listening) <= {"127.0.0.1", "::ffff:127.0.0.1"}
    assert len(listening) > 1


def test_a_local_ray_has_cpus_for_the_shards_and_verdicts_of_its_gpus(monkeypatch):
    """Two for each GPU, whatever the number of workers; the workers without one."""
    for gpus, expected in ((0, 2), (4, 8)):
        monkeypatch.setattr("flows.ray.runners.machine_gpus", lambda found=gpus: found)
        assert _ray_options(ExecutionParams(workers=2))["num_cpus"] == expected
