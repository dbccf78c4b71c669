"""No process of an engine is left, however it or its starter ends."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

import psutil
import pytest

from pipeline_lib.engines.known.engine import ServedModel
from pipeline_lib.engines.known.vllm import VLLM
from pipeline_lib.engines.launch.probes import listening_pids
from pipeline_lib.engines.launch.process import EngineProcess
from tests.waiting import until

PORT = 18600
START = """
import pathlib, sys, time
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.engines.known.engine import ServedModel
from pipeline_lib.engines.known.vllm import VLLM
from pipeline_lib.engines.launch.process import EngineProcess
environment, log, port = sys.argv[1:]
serve = ServeParams(engine="vllm", environment=environment, options=("--workers",))
launch = VLLM.launch(serve, ServedModel(model="m", name="m", port=int(port)))
EngineProcess("vllm", launch, pathlib.Path(log))
time.sleep(600)
"""


def alive(pids) -> list[int]:
    left = []
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                left.append(pid)
    return left


def started(small, tmp_path, *options: str) -> EngineProcess:
    """The small server with its children, after it listens."""
    launch = VLLM.launch(small(*options), ServedModel(model="m", name="m", port=PORT))
    process = EngineProcess("vllm", launch, tmp_path / "log")
    until(lambda: listening_pids(PORT))
    return process


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_children_that_ignore_sigterm_are_killed(small, tmp_path, how):
    """Three processes: the server and two that ignore SIGTERM, one in a session of its own."""
    process = started(small, tmp_path, "--workers")
    pids = [child.pid for child in process.processes]
    assert len(pids) == 3
    getattr(process, how)()
    assert alive(pids) == []
    assert process.processes == []
    assert listening_pids(PORT) == frozenset()


@pytest.mark.parametrize("frozen", [False, True])
def test_workers_and_memory_of_a_killed_server_are_freed(small, tmp_path, frozen):
    """Workers and shared memory outlive their server until the subreaper ends both.

    Also for stopped processes (SIGSTOP), multiprocessing's tracker among them.
    """
    process = started(small, tmp_path, "--workers", "--shared-memory")
    pids = [child.pid for child in process.processes]
    block = pathlib.Path("/dev/shm") / process.log.read_text("utf-8").split()[1]
    assert block.exists()
    if frozen:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
    server = next(iter(listening_pids(PORT)))
    os.kill(server, signal.SIGKILL)
    until(lambda: process.exit_code is not None)
    assert process.exit_code == 128 + signal.SIGKILL
    assert alive(pids) == []
    assert not block.exists()
    process.stop()


def test_a_killed_subreaper_leaves_nothing_behind(small, tmp_path):
    """The server dies with the subreaper; processes left in its session are found and killed."""
    process = started(small, tmp_path, "--workers")
    everyone = {child.pid for child in process.processes}
    pids = [pid for pid in everyone if os.getsid(pid) == process.session]
    assert len(pids) == 2
    scratch = pathlib.Path(psutil.Process(pids[0]).environ()["TMPDIR"])
    os.kill(process.session, signal.SIGKILL)
    until(lambda: process.exit_code is not None)
    process.stop()
    assert (alive(pids), scratch.exists()) == ([], False)
    # A process in a session of its own is not found then; no engine starts one.
    os.kill((everyone - set(pids)).pop(), signal.SIGKILL)


@pytest.mark.fault("SIGKILL of an engine's starter", "cleaned up")
def test_no_engine_outlives_the_process_that_started_it(small, tmp_path):
    """After SIGKILL of the starter, every process of the engine ends."""
    environment = small().environment
    starter = subprocess.Popen(
        [sys.executable, "-c", START, environment, str(tmp_path / "log"), str(PORT)]
    )
    until(lambda: listening_pids(PORT))
    family = [child.pid for child in psutil.Process(starter.pid).children(recursive=True)]
    assert len(family) == 4  # the subreaper, the server and two children
    starter.kill()
    starter.wait()
    until(lambda: not alive(family))
    assert listening_pids(PORT) == frozenset()


def test_an_engine_survives_the_thread_that_started_it(small, tmp_path):
    """Restarts are made by a thread; the engine does not end with it."""
    made: list[EngineProcess] = []
    thread = threading.Thread(target=lambda: made.append(started(small, tmp_path)))
    thread.start()
    thread.join()
    time.sleep(1.0)
    assert made[0].exit_code is None
    made[0].stop()


def test_sockets_are_removed_with_the_engine(small, tmp_path):
    """The engine has its own temporary folder, which is removed at its end."""
    process = started(small, tmp_path)
    server = psutil.Process(next(iter(listening_pids(PORT))))
    scratch = pathlib.Path(server.environ()["TMPDIR"])
    assert scratch.is_dir()
    process.stop()
    assert not scratch.exists()


def test_the_log_tail_is_of_the_last_start(small, tmp_path):
    """Its errors alone: the log is appended to, but those of an earlier start are not reported again."""
    (tmp_path / "log").write_text("ValueError: long ago\n", encoding="utf-8")
    launch = VLLM.launch(small("--die"), ServedModel(model="m", name="m", port=PORT))
    process = EngineProcess("vllm", launch, tmp_path / "log")
    until(lambda: process.exit_code is not None)
    assert process.exit_summary == (
        "ended with exit code 1: ValueError: this model cannot be served "
        f"(all of it: {tmp_path / 'log'})"
    )
    assert "long ago" in process.log.read_text("utf-8")
    process.stop()
