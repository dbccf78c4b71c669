"""The Prefect server dies, comes back, or cannot write, while a run works."""

import contextlib
import os
import signal
import sqlite3
import time
from collections.abc import Iterator

import pytest

from flows.server import server
from tests.faults.servers import OwnServer
from tests.faults.workspaces import (
    THREADS,
    assert_whole,
    sealed_files,
)

pytestmark = pytest.mark.slow
DOWN_S, LOCKED_S, SILENT_S = 5.0, 30.0, 90.0
ENDED_S = 120.0
"""A run whose server is gone ends within this time."""


@pytest.fixture
def own_server(tmp_path) -> Iterator[OwnServer]:
    found = OwnServer(tmp_path / "own-server")
    found.start()
    yield found
    found.kill()


@contextlib.contextmanager
def locked(database) -> Iterator[None]:
    """Hold SQLite's write lock for the block."""
    connection = sqlite3.connect(database, timeout=30, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")
    finally:
        connection.close()


@pytest.mark.parametrize("runner", ["thread", "ray"])
@pytest.mark.fault("Prefect server killed and started again in 5 s", "continues")
def test_server_restarted(start, own_server, unbroken, tmp_path, runner):
    """On the same port and database, in the middle of sampling."""
    root = tmp_path / "run"
    api_url = own_server.api_url
    run = start.sampling(root, unbroken, "--runner", runner, PREFECT_API_URL=api_url)
    own_server.kill()
    time.sleep(DOWN_S)
    own_server.start()
    assert run.wait(ENDED_S) == 0, run.stderr
    assert run.left_after(15) == []
    assert_whole(root, unbroken, own_server.api_url)


@pytest.mark.fault("Prefect server killed, and not started again", "one line")
def test_server_gone(start, own_server, unbroken, tmp_path):
    """The run ends in time; with a server again, the same command resumes it."""
    root = tmp_path / "run"
    api_url = own_server.api_url
    run = start.sampling(root, unbroken, *THREADS, PREFECT_API_URL=api_url)
    own_server.kill()
    assert run.wait(ENDED_S) == 1
    assert run.stderr.count("\n") == 1, run.stderr
    assert "run the same command again" in run.stderr
    assert run.left_after(15) == []
    own_server.start()
    start.resume(root, unbroken, api_url, *THREADS, PREFECT_API_URL=api_url)


def own_state(tmp_path, monkeypatch):
    """The environment of commands that start a local server of this test."""
    state = str(tmp_path / "state")
    monkeypatch.setenv("REASONLOOP_STATE", state)
    return {"PREFECT_API_URL": None, "REASONLOOP_STATE": state}


@pytest.mark.fault("local Prefect server killed", "one line")
def test_local_server_killed(start, unbroken, tmp_path, monkeypatch):
    """The server that the command has started itself; the same command starts another and resumes."""
    root = tmp_path / "run"
    own = own_state(tmp_path, monkeypatch)
    run = start.sampling(root, unbroken, *THREADS, **own)
    os.kill(server.find().pid, signal.SIGKILL)
    assert run.wait(ENDED_S) == 1
    assert run.stderr.count("\n") == 1, run.stderr
    assert "has died; run the same command again" in run.stderr
    assert run.left_after(15) == []
    sealed = sealed_files(root)
    try:
        again = start.run(root, *THREADS, **own)
        assert again.wait() == 0, again.stderr
        assert sealed.items() <= sealed_files(root).items()
        assert_whole(root, unbroken, server.find().api_url)
    finally:
        server.stop()


@pytest.mark.fault("local Prefect server silent for 90 s", "continues")
def test_local_server_silent(start, unbroken, tmp_path, monkeypatch):
    """Its process is stopped and continued; it accepts requests all the time."""
    root = tmp_path / "run"
    run = start.sampling(root, unbroken, *THREADS, **own_state(tmp_path, monkeypatch))
    pid = server.find().pid
    try:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(SILENT_S)
        os.kill(pid, signal.SIGCONT)
        assert run.wait() == 0, run.stderr
        assert_whole(root, unbroken, server.find().api_url)
    finally:
        os.kill(pid, signal.SIGCONT)
        server.stop()
    assert run.left_after(15) == []


@pytest.mark.fault("database of the Prefect server locked for 30 s", "continues")
def test_database_locked(start, own_server, unbroken, tmp_path):
    """By another writer, in the middle of sampling."""
    root = tmp_path / "run"
    run = start.sampling(root, unbroken, *THREADS, PREFECT_API_URL=own_server.api_url)
    with locked(own_server.database):
        time.sleep(LOCKED_S)
    assert run.wait() == 0, run.stderr
    assert run.left_after(15) == []
    assert_whole(root, unbroken, own_server.api_url)
