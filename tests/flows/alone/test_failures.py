"""Failures of the environment are one line; a bug is a traceback."""

import errno
import os
import subprocess
import sys
from functools import partial

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray.exceptions
import safetensors.torch
import torch
from prefect.exceptions import ParameterTypeError, PrefectHTTPStatusError
from safetensors import SafetensorError

from flows.ray.runners import cluster
from flows.run import watch
from flows.run.failures import failure_line, unwrapped_signals
from flows.run.terminal import complain
from flows.run.watch import silence_problem
from flows.server import server
from pipeline_lib.errors import ReasonloopError
from pipeline_lib.params.whole import ExecutionParams
from pipeline_lib.telemetry import read_events, record_event
from tests.faults.small_disk import small_disk

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "data/paths/0.jsonl")


def _raised(error: BaseException, *causes: BaseException) -> BaseException:
    """``error``, raised from the first of ``causes``, which was raised from the second and so on."""
    for above, below in zip((error, *causes), causes, strict=False):
        above.__cause__ = below
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (FULL, "data/paths/0.jsonl: no space left"),
        (OSError(errno.EDQUOT, "Disk quota exceeded", "a"), "a: no space left"),
        (SafetensorError("I/O error: No space left on device (os error 28)"), "no space left"),
        (RuntimeError("write failed: No space left on device"), "no space left"),
        (_raised(ValueError("state"), RuntimeError("task"), FULL), "data/paths/0.jsonl: no space"),
        (ExceptionGroup("many", [ValueError("x"), FULL]), "data/paths/0.jsonl: no space left"),
        (ray.exceptions.RaySystemError("raylet has died"), "Ray has failed"),
        (_raised(RuntimeError("x"), ray.exceptions.WorkerCrashedError()), "Ray has failed"),
        (httpx.ConnectError("All connection attempts failed"), "ConnectError: All connection"),
        (_raised(RuntimeError("x"), httpx.ReadTimeout("")), "ReadTimeout"),
        (PermissionError(13, "Permission denied", "/etc/x"), "Permission denied: '/etc/x'"),
        (BrokenPipeError(32, "Broken pipe"), "Broken pipe"),
    ],
    ids=range(12),
)
def test_environment_failures_are_one_line(error, words):
    """Problem, place and remedy, found anywhere in the chain of causes."""
    line = failure_line(error)
    assert words in line
    assert "\n" not in line


def _write_torch(path):
    torch.save({"a": torch.zeros(200_000)}, path)


def _write_safetensors(path):
    safetensors.torch.save_file({"a": torch.zeros(200_000)}, path)


def _write_parquet(path):
    pq.write_table(pa.table({"a": [os.urandom(1000).hex() for _ in range(500)]}), path)


@pytest.mark.parametrize("write", [_write_torch, _write_safetensors, _write_parquet])
@pytest.mark.parametrize("room_kib", [0, 100])
def test_writers_of_libraries_on_a_full_disk(tmp_path, write, room_kib):
    """Their real errors, which name no file, are one line with the workspace."""
    with small_disk(tmp_path / "disk", mib=1) as disk:
        disk.fill(leave_kib=room_kib)
        with pytest.raises(Exception, match=r"space left|unexpected pos") as caught:
            write(disk.root / "file")
    line = failure_line(caught.value, root=disk.root)
    assert line.startswith(f"{disk.root}: no space left")


def test_events_on_a_full_disk(tmp_path):
    """An event that does not fit raises with the file's name; with room again, no line is joined to
    what was written of it.
    """
    with small_disk(tmp_path / "disk", mib=1) as disk:
        root = disk.root / "run"
        record_event(root, "first")
        disk.fill(leave_kib=4)
        with pytest.raises(OSError, match=r"No space left on device: '.*events.jsonl'"):
            record_event(root, "long", text="x" * 20_000)
        disk.empty()
        record_event(root, "last")
        assert [event["event"] for event in read_events(root)] == ["first", "last"]


def test_the_server_s_refusal_is_one_line():
    """Also for Prefect's own errors."""
    request = httpx.Request("GET", "http://127.0.0.1/api")
    answer = httpx.Response(500, request=request)
    error = PrefectHTTPStatusError("Server error '500'", request=request, response=answer)
    assert "Prefect server" in failure_line(error)


IN_A_WORKER = ray.exceptions.RayTaskError("sample_shard", "Traceback ...", KeyError("a"))


@pytest.mark.parametrize(
    "bug",
    [
        ValueError("x"),
        AssertionError(),
        KeyError("a"),
        RecursionError(),
        IN_A_WORKER,
        IN_A_WORKER.as_instanceof_cause(),
        ParameterTypeError("settings"),
    ],
    ids=range(7),
)
def test_a_bug_keeps_its_traceback(bug):
    """Also in a Ray worker or in a call by Prefect."""
    assert failure_line(bug) is None


def test_a_circle_of_causes_ends():
    """Two errors, each the context of the other."""
    error, other = ValueError("a"), ValueError("b")
    error.__context__, other.__context__ = other, error
    assert failure_line(error) is None


@pytest.mark.parametrize("message", ["a\x1b[2J\nb", "\ud800", "\x9b31m" * 3, "[/red]"])
def test_a_message_is_one_plain_line(message, capsys):
    """For any text in a file name or from a model."""
    complain(message)
    stderr = capsys.readouterr().err
    assert stderr.count("\n") == 1
    assert not set(stderr) & {"\x1b", "\x9b", "\x07"}


WATCHED = """
import sys, time
from flows.run.watch import watched
answers = iter([None, "the server has gone\\x1b[2J"])
with watched(lambda: next(answers, None), poll_s=0.1):
    try:
        time.sleep(60)
    finally:
        {last}
"""


@pytest.mark.parametrize(
    "last",
    [
        "sys.stderr.write('noise')",
        "time.sleep(60)",
        "import subprocess; subprocess.run(['sleep', '60'])",
    ],
    ids=["ends", "hangs", "waits for a child"],
)
def test_a_run_without_a_server_ends(last):
    """One line and exit code 1, also if cleaning up would take a minute."""
    done = subprocess.run(
        [sys.executable, "-c", WATCHED.format(last=last)],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("reasonloop: the server has gone[2J; run the same command again")


LATE = """
import threading, time
from flows.run.watch import watched
polled, left = threading.Event(), threading.Event()
def problem():
    polled.set()
    left.wait()
    return "the workspace has vanished"
with watched(problem, poll_s=0.01):
    polled.wait()
left.set()
time.sleep(1)
"""


def test_a_poll_that_outlasts_the_run_ends_nothing():
    """Once a workspace is released, its descriptor can belong to another file."""
    done = subprocess.run(
        [sys.executable, "-c", LATE], capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


RAYLIKE = """
import os, signal, subprocess, threading, time
from flows.run.watch import children_problem, watched
child = subprocess.Popen(["sleep", "60"])
subprocess.Popen(["sleep", "0"]).wait()
problem = children_problem({"sleep"})
assert problem() is None
threading.Timer(0.5, os.kill, (child.pid, signal.SIGKILL)).start()
with watched(problem, poll_s=0.1):
    time.sleep(60)
"""


def test_a_child_that_has_gone_ends_the_run():
    """Such as a raylet that the kernel kills for lack of memory."""
    done = subprocess.run(
        [sys.executable, "-c", RAYLIKE], capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "a process of Ray" in done.stderr


def test_silence_is_counted_from_the_last_answer():
    """A service that has answered within the patience is not reported; a silent one is, with its name."""
    answers = iter([False, True, False])
    patient = silence_problem("the cluster", lambda: next(answers), patience_s=60)
    assert [patient() for _ in range(3)] == [None, None, None]
    assert "the cluster gives no answer" in silence_problem("the cluster", bool, patience_s=0)()


def test_a_suspended_machine_is_no_silence(monkeypatch):
    """An hour between two polls, of which the second fails, counts as a slow poll; six of those do not."""
    clock = iter([0, 3600, *(3600 + 10 * poll for poll in range(1, 8))])
    monkeypatch.setattr(watch.time, "monotonic", lambda: next(clock))
    problem = silence_problem("the server", bool, patience_s=60)
    assert [problem() for _ in range(6)] == [None] * 6
    assert problem() == "the server gives no answer for 70 s"


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:99999"])
def test_an_address_without_a_cluster_is_one_line(monkeypatch, address):
    """Detected by a connection attempt, since Ray itself retries for a minute and logs each try."""
    monkeypatch.setenv("RAY_ADDRESS", address)
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:1/api")
    execution = ExecutionParams(runner="ray")
    with pytest.raises(ReasonloopError, match=f"RAY_ADDRESS={address}: no answer"):
        cluster(execution).__enter__()
    named = ExecutionParams(runner="ray", ray_address="127.0.0.1:2")
    with pytest.raises(ReasonloopError, match=r"execution\.ray_address=127\.0\.0\.1:2: no answer"):
        cluster(named).__enter__()


@pytest.mark.parametrize(
    "address", ["", "not a url", "http://[", "http://127.0.0.1:1/api", "ftp://x"]
)
def test_an_address_without_a_server_does_not_answer(address):
    """For several forms of PREFECT_API_URL."""
    assert not server.answers(address)


@pytest.mark.parametrize("content", ["", "[]", "{}", "[" * 100_000, '{"pid": "x"}', '{"pid": -1}'])
def test_a_broken_record_names_no_server(tmp_path, monkeypatch, content):
    """After a crash of the machine: there is no server, and stopping it is no error."""
    monkeypatch.setenv("REASONLOOP_STATE", str(tmp_path))
    (tmp_path / "server.json").write_text(content)
    assert server.find() is None
    assert server.stop() is False


def test_the_prefect_server_is_guarded(prefect_server):
    """Other host names and origins are refused; its own UI and clients are served."""
    url = f"{prefect_server.api_url}/health"
    get = partial(httpx.get, timeout=60)  # the machine may be busy
    assert get(url).status_code == 200
    assert get(url, headers={"origin": prefect_server.ui_url}).status_code == 200
    for headers in (
        {"host": "evil.example"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
    ):
        answer = get(url, headers=headers)
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers
    assert get(prefect_server.ui_url).status_code == 200


class _Stopped(BaseException):
    """As Prefect's at SIGTERM."""


def test_a_signal_in_ray_is_what_its_handler_raised():
    """Ray's C code wraps it; a SystemError without a cause is a bug, and passes."""

    def get(cause):
        raise SystemError("returned a result with an exception set") from cause

    with pytest.raises(_Stopped), unwrapped_signals():
        get(_Stopped())
    with pytest.raises(SystemError), unwrapped_signals():
        get(None)
