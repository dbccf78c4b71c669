"""Fan-out by shards: never more at a time than the bound, in order, the first failure at once."""

import os
import pathlib
import signal
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

from flows.runners import SHARDS_PER_WORKER, cluster, map_bounded, shards_in_flight, task_runner
from pipeline_lib.params.whole import ExecutionParams

GIVE_UP_S = 60.0
"""A test that would hang fails by then."""


@pytest.fixture(scope="module")
def on_server(prefect_server, tmp_path_factory) -> Iterator[None]:
    """Flows of this process report to the session's server."""
    settings = {
        PREFECT_API_URL: prefect_server.api_url,
        PREFECT_HOME: tmp_path_factory.mktemp("home"),
        # Logs are sent in the background, to a server that is gone when the session ends.
        PREFECT_LOGGING_TO_API_ENABLED: False,
    }
    with pytest.MonkeyPatch.context() as patch, temporary_settings(settings):
        patch.setenv("PREFECT_API_URL", prefect_server.api_url)
        yield


@pytest.fixture(scope="module", params=["thread", pytest.param("ray", marks=pytest.mark.slow)])
def execution(request, on_server) -> Iterator[ExecutionParams]:
    """Two workers, as threads and as processes of Ray."""
    execution = ExecutionParams(runner=request.param, workers=2)
    with cluster(execution):
        yield execution


@dataclass
class Jobs:
    """Items that are taken one by one, and what was done when each of them was."""

    folder: pathlib.Path
    count: int
    done_when_taken: list[int] = field(default_factory=list)

    def __iter__(self) -> Iterator[tuple[pathlib.Path, int]]:
        for number in range(self.count):
            self.done_when_taken.append(len(list(self.folder.iterdir())))
            yield self.folder, number


@task
def squared(job: tuple[pathlib.Path, int]) -> int:
    folder, number = job
    (folder / str(number)).touch()
    return number * number


def mapped(some_task, items, execution, *, in_flight):
    """The results of a flow that does nothing else."""

    @flow(task_runner=task_runner(execution))
    def fan_out():
        return map_bounded(some_task, items, in_flight=in_flight)

    return fan_out()


@pytest.mark.parametrize("in_flight", [1, 3])
def test_bounded_and_in_order(execution, tmp_path, in_flight):
    """Each of 12 items is taken only when fewer than ``in_flight`` of those before it are not done."""
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


def test_a_slow_item_stops_no_other(execution, tmp_path):
    """The first item ends only after the last one did: any that ends makes room, not the oldest."""
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
    """It is raised as it is, what was done stays done, and hardly anything more is submitted."""
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


def test_a_worker_that_dies_costs_nothing(execution, tmp_path):
    """Ray runs the task of a killed worker again; its result stands where it belongs."""
    if execution.runner == "thread":
        pytest.skip("a thread dies with its process")
    jobs = [(tmp_path, number) for number in range(6)]
    assert mapped(dies_once, jobs, execution, in_flight=3) == list(range(6))


class ToldToStop(BaseException):
    """What a signal's handler raises."""


class InterruptedTask:
    """Stands in for a task: SIGTERM comes in the middle of its submission."""

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
    """The handler's exception comes unchanged, once the task is submitted and before the next is."""

    def stop(*_):
        raise ToldToStop

    interrupted = InterruptedTask()
    before = signal.signal(signal.SIGTERM, stop)
    try:
        with pytest.raises(ToldToStop):
            map_bounded(interrupted, ["first", "second"], in_flight=1)
        assert signal.getsignal(signal.SIGTERM) is stop
    finally:
        signal.signal(signal.SIGTERM, before)
    assert interrupted.submitted == ["first"]


def test_shards_in_flight(execution, monkeypatch):
    """A few a worker; for a cluster that runs already its CPUs count, whatever the params say."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    asked = execution.model_copy(update={"workers": 7})
    assert shards_in_flight(asked) == 7 * SHARDS_PER_WORKER
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    found = execution.workers if execution.runner == "ray" else 7
    assert shards_in_flight(asked) == found * SHARDS_PER_WORKER
