"""The local Prefect server: found or started once; stale records are ignored."""

import os
import subprocess
import sys

import psutil
import pytest

from flows.server import server
from pipeline_lib.errors import ReasonloopError


def test_concurrent_runs_share_one_server(tmp_path):
    """Two processes that need a server at the same time get the same one; `stop` ends it."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT")}
    environment["REASONLOOP_STATE"] = str(tmp_path)
    command = [sys.executable, "-m", "flows.cli", "server"]
    both = [
        subprocess.Popen([*command, "start"], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    addresses = {process.communicate(timeout=120)[0] for process in both}
    assert len(addresses) == 1
    assert "http://127.0.0.1:" in addresses.pop()
    status = subprocess.run(
        [*command, "status"], env=environment, capture_output=True, text=True, check=True
    )
    pid = int(status.stdout.split("process ")[1].split(",")[0])
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    stopped = subprocess.run(
        [*command, "stop"], env=environment, capture_output=True, text=True, check=True
    )
    assert "stopped" in stopped.stdout
    # A process that has ended is listed until its parent asks for its exit code.
    assert not psutil.wait_procs(family, timeout=30)[1]


def test_a_server_that_starts_too_slowly_is_stopped(tmp_path, monkeypatch):
    """One line names its process, which is gone, and its log; the next command starts another."""
    monkeypatch.setenv("REASONLOOP_STATE", str(tmp_path))
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    silent = [sys.executable, "-c", "import time; time.sleep(600)"]
    monkeypatch.setattr(server, "_command", lambda _port: silent)
    monkeypatch.setattr(server, "START_TIMEOUT_S", 0.5)
    with pytest.raises(ReasonloopError, match=r"does not answer; see .*server\.log") as refused:
        server.ensure()
    pid = int(str(refused.value).split("process ")[1].split(")")[0])
    assert not psutil.pid_exists(pid)
    assert server.find() is None


@pytest.mark.fault("process id of a dead server in use again", "continues")
def test_a_reused_process_id_is_not_the_server(tmp_path, monkeypatch):
    """A record whose process id now belongs to another process is ignored."""
    monkeypatch.setenv("REASONLOOP_STATE", str(tmp_path))
    (tmp_path / "server.json").write_text(
        f'{{"pid": {os.getpid()}, "started": 1.0, "port": 1}}', encoding="utf-8"
    )
    assert server.find() is None
    assert server.stop() is False


def test_a_named_server_that_does_not_respond_is_an_error(monkeypatch):
    """PREFECT_API_URL is never replaced silently."""
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    with pytest.raises(ReasonloopError, match=r"PREFECT_API_URL=http://127\.0\.0\.1:9/api"):
        server.ensure()
