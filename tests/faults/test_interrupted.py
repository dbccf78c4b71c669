"""Ctrl-C twice: the second one falls into the clean-up after the first."""

import signal
import time

import pytest

from pipeline_lib.telemetry import read_events
from tests.faults.workspaces import assert_whole, copy_until, sealed_files

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("pause_s", [0.05, 1.0])
@pytest.mark.fault("second Ctrl-C in the clean-up after the first", "cleaned up")
def test_second_interrupt(start, prefect_server, unbroken, tmp_path, pause_s):
    """While Ray samples: the command ends with code 130, and no process is left."""
    root = tmp_path / "run"
    copy_until("sample", unbroken, root)
    run = start.run(root, "--runner", "ray")
    run.until(lambda: read_events(root))
    assert len(run.left()) > 3
    run.process.send_signal(signal.SIGINT)
    time.sleep(pause_s)
    run.process.send_signal(signal.SIGINT)
    assert run.wait(60) == 130
    assert run.left_after(15) == []
    assert "Traceback" not in run.stderr
    sealed = sealed_files(root)
    again = start.run(root, "--runner", "thread")
    assert again.wait() == 0, again.stderr
    assert sealed.items() <= sealed_files(root).items()
    assert_whole(root, unbroken, prefect_server.api_url)
