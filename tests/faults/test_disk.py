"""A disk that is full, broken or gone while a run works: one line with the path, then the run goes on."""

import pathlib
import re
import resource
import shutil
import signal
import tempfile

import httpx
import pytest

from pipeline_lib.telemetry import events_size, read_events
from tests.faults.small_disk import ext4_disk, small_disk
from tests.faults.workspaces import THREADS, TINY, copy_until, digests, temporary_files

DISK_MIB = 8


def ends_in_one_line(started, *words: str, code: int = 1) -> None:
    """It ends with ``code``, and standard error is one line with all ``words``."""
    assert started.wait() == code, started.stderr
    assert started.stderr.count("\n") == 1, started.stderr
    assert started.stderr.startswith("reasonloop: ")
    assert all(word in started.stderr for word in words), started.stderr
    assert "Traceback" not in stdout(started)


def stdout(started) -> str:
    return (started.folder / "stdout").read_text("utf-8")


def admitted(started):
    """True once the checks before a run have passed; flows are imported then, for a second or more."""
    return lambda: "Prefect UI" in stdout(started)


def at_work(workspace, stage: str) -> bool:
    """True once a step of a training was done."""
    return any(
        event["event"] == "work" and event["stage"] == stage for event in read_events(workspace)
    )


def goes_on(start, workspace, unbroken, *runner: str) -> None:
    """The same run ends with the digests of an unbroken one and leaves nothing behind."""
    again = start.run(workspace, *(runner or THREADS))
    assert again.wait() == 0, again.stderr
    assert digests(workspace) == digests(unbroken)
    assert temporary_files(workspace) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "room_kib"),
    [
        pytest.param(
            *("bootstrap", (0, 64, 512, 1024, 2048)),
            marks=pytest.mark.fault("disk full in bootstrap", "resumes"),
        ),
        pytest.param(
            *("sample", (0, 8, 16)), marks=pytest.mark.fault("disk full in sample", "resumes")
        ),
        pytest.param(
            *("verify", (0, 8, 16)), marks=pytest.mark.fault("disk full in verify", "resumes")
        ),
        pytest.param(*("build", (0, 8)), marks=pytest.mark.fault("disk full in build", "resumes")),
        pytest.param(
            *("train", (0, 512, 1024, 2048)),
            marks=pytest.mark.fault("disk full in train", "resumes"),
        ),
        pytest.param(
            *("evaluate", (0, 16)), marks=pytest.mark.fault("disk full in evaluate", "resumes")
        ),
        pytest.param(
            *("report", (0, 16, 64)), marks=pytest.mark.fault("disk full in report", "resumes")
        ),
    ],
)
def test_a_full_disk_ends_a_stage(start, unbroken, tmp_path, stage, room_kib):
    """With each amount of room another writer fails; what was written in part is never taken for
    whole, and the same stage goes on once there is room.
    """
    with small_disk(tmp_path / "disk", mib=DISK_MIB) as disk:
        workspace = disk.root / "run"
        copy_until(stage, unbroken, workspace)
        for room in room_kib:
            failed = start("stage", stage, "--workspace", workspace, *TINY, *THREADS)
            failed.until(admitted(failed))
            disk.fill(leave_kib=room)
            ends_in_one_line(failed, "no space left", str(workspace))
            disk.empty()
        done = start("stage", stage, "--workspace", workspace, *TINY, *THREADS)
        assert done.wait() == 0, done.stderr
        expected = digests(unbroken)
        assert all(expected[name] == digest for name, digest in digests(workspace).items())
        if stage == "report":
            assert (workspace / "reports" / "report.html").is_file()


@pytest.mark.slow
@pytest.mark.fault("disk full before the run", "refused")
def test_a_full_disk_is_seen_in_advance(start, tmp_path):
    """One line."""
    with small_disk(tmp_path / "disk", mib=2) as disk:
        disk.fill()
        refused = start.run(disk.root / "other", *THREADS)
        ends_in_one_line(refused, str(disk.root))


@pytest.mark.slow
@pytest.mark.fault("read-only disk before the run", "refused")
def test_a_read_only_workspace_is_refused(start, tmp_path):
    """One line, not a single event."""
    with small_disk(tmp_path / "disk", mib=DISK_MIB) as disk:
        disk.remount("ro")
        refused = start.run(disk.root / "run", *THREADS)
        ends_in_one_line(refused, "cannot be written", "Read-only file system", str(disk.root))


@pytest.mark.slow
@pytest.mark.fault("I/O errors in train", "resumes")
def test_a_broken_disk_ends_a_run(start, unbroken, tmp_path):
    """An ext4 that fails each access in mid-training: one line; repaired, it holds all that was
    sealed, and the run goes on.
    """
    with ext4_disk(tmp_path / "disk", mib=32) as disk:
        workspace = disk.root / "run"
        copy_until("train", unbroken, workspace)
        failed = start.run(workspace, *THREADS)
        failed.until(lambda: at_work(workspace, "train"))
        disk.fail()
        ends_in_one_line(failed, "Input/output error", str(workspace))
        disk.repair()
        goes_on(start, workspace, unbroken)


@pytest.mark.slow
@pytest.mark.fault("disk turns read-only in bootstrap", "resumes")
def test_a_disk_that_turns_read_only_ends_a_run(start, unbroken, tmp_path):
    """As the kernel does to an ext4 with errors: one line; repaired, the run goes on."""
    with ext4_disk(tmp_path / "disk", mib=32, options="loop,errors=remount-ro") as disk:
        workspace = disk.root / "run"
        failed = start.run(workspace, *THREADS)
        failed.until(lambda: at_work(workspace, "bootstrap"))
        disk.turn_read_only()
        ends_in_one_line(failed, "Read-only file system", str(workspace))
        disk.repair()
        goes_on(start, workspace, unbroken)


@pytest.mark.slow
@pytest.mark.fault("workspace unmounted in bootstrap", "resumes")
def test_a_workspace_that_vanishes_ends_a_run(start, unbroken, tmp_path):
    """One line; mounted again, it holds all that was sealed, and the run goes on."""
    with ext4_disk(tmp_path / "disk", mib=32) as disk:
        workspace = disk.root / "run"
        failed = start.run(workspace, *THREADS)
        failed.until(lambda: at_work(workspace, "bootstrap"))
        disk.vanish()
        ends_in_one_line(failed, "has vanished", str(workspace))
        shutil.rmtree(disk.root / "run", ignore_errors=True)
        disk.repair()
        goes_on(start, workspace, unbroken)


@pytest.mark.slow
@pytest.mark.fault("workspace removed in bootstrap", "one line")
def test_a_workspace_that_is_removed_ends_a_run(start, unbroken, tmp_path):
    """One line; the next run begins from nothing and ends with the same digests."""
    workspace = tmp_path / "run"
    failed = start.run(workspace, *THREADS)
    failed.until(lambda: at_work(workspace, "bootstrap"))
    workspace.rename(tmp_path / "away")
    ends_in_one_line(failed, "has vanished", str(workspace))
    shutil.rmtree(tmp_path / "away")
    goes_on(start, workspace, unbroken)


@pytest.mark.slow
@pytest.mark.parametrize("runner", ["thread", "ray"])
@pytest.mark.fault("spaces and non-ASCII in the workspace's path", "continues")
def test_any_path_can_be_a_workspace(start, unbroken, tmp_path, runner):
    """A name with a space, an umlaut, a quote and a bracket changes no digest."""
    goes_on(start, tmp_path / "mit Über 'x' [道]", unbroken, "--runner", runner)


@pytest.mark.slow
@pytest.mark.parametrize("runner", ["thread", "ray"])
@pytest.mark.fault("at most 256 open files", "continues")
def test_256_descriptors_are_enough(start, unbroken, tmp_path, runner):
    """For threads, and for Ray with its processes."""
    limited = start.run(tmp_path / "run", "--runner", runner)
    resource.prlimit(limited.process.pid, resource.RLIMIT_NOFILE, (256, 256))
    assert limited.wait() == 0, limited.stderr
    assert digests(tmp_path / "run") == digests(unbroken)


@pytest.mark.slow
@pytest.mark.fault("disk full under an engine's log", "continues")
def test_a_full_log_stops_no_engine(start, unbroken, tmp_path):
    """An engine that starts on a full disk ends with one line that says so. One that works goes on, although
    no line of its log can be written.
    """
    with small_disk(tmp_path / "disk", mib=1) as disk:
        arguments = ("serve", unbroken / "models" / "policy", "--workspace", disk.root)
        disk.fill()
        ends_in_one_line(start(*arguments), "no space left for its log", str(disk.root))
        disk.empty()
        serving = start(*arguments)
        serving.until(lambda: "\nserving" in stdout(serving))
        disk.fill()
        url = re.search(r"base URL: (\S+)", stdout(serving)).group(1)
        model = httpx.get(f"{url}/models").json()["data"][0]["id"]
        body = {"model": model, "prompt": "3,5=8\n", "max_tokens": 4}
        for _ in range(3):
            assert httpx.post(f"{url}/completions", json=body, timeout=60).status_code == 200
        serving.process.terminate()
        assert serving.wait() == 128 + signal.SIGTERM


@pytest.fixture
def ray_disk():
    """A disk for RAY_TMPDIR, at a short path, since Ray's sockets are below it."""
    with (
        tempfile.TemporaryDirectory(prefix="rl") as short,
        small_disk(pathlib.Path(short), mib=160) as disk,
    ):
        yield disk


@pytest.mark.slow
@pytest.mark.fault("disk full under Ray's session, before the run", "refused")
def test_a_full_disk_of_ray_is_seen_in_advance(start, ray_disk, tmp_path):
    """One line with the folder, not a single event."""
    ray_disk.fill(leave_kib=2048)
    refused = start.run(tmp_path / "run", "--runner", "ray", RAY_TMPDIR=str(ray_disk.root))
    ends_in_one_line(refused, "2 MiB free, and Ray keeps", str(ray_disk.root))
    assert events_size(tmp_path / "run") == 0


@pytest.mark.slow
@pytest.mark.fault("disk full under Ray's session, in bootstrap", "resumes")
def test_a_full_disk_of_ray(start, unbroken, ray_disk, tmp_path):
    """Workers that run need no room; a new one dies at its start, and the last line names Ray."""
    run = start.run(tmp_path / "run", "--runner", "ray", RAY_TMPDIR=str(ray_disk.root))
    run.until(lambda: at_work(tmp_path / "run", "bootstrap"))
    ray_disk.fill()
    assert run.wait() in {0, 1}, run.stderr
    if run.wait() == 1:
        # Ray itself writes to the console that its log is full.
        assert run.stderr.splitlines()[-1].startswith("reasonloop: Ray has failed"), run.stderr
    ray_disk.empty()
    goes_on(start, tmp_path / "run", unbroken, "--runner", "ray")
