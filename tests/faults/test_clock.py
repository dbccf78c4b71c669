"""The wall clock of a machine that is set back while a run works."""

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from pipeline_lib.store.files import read_json
from pipeline_lib.telemetry import read_events
from tests.faults.workspaces import THREADS, digests

_HOUR_S = 3600


class Clock:
    """A wall clock that tests can set; it is that of each process with ``environment``."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("no C compiler to build the clock with")
        library, self._shift = folder / "set_back.so", folder / "shift"
        source = Path(__file__).with_name("set_back.c")
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        self.set(0)
        self.environment = {"LD_PRELOAD": str(library), "CLOCK_SHIFT": str(self._shift)}

    def set(self, shift_s: int) -> None:
        mode = "r+b" if self._shift.exists() else "wb"  # in place: the file is mapped
        with self._shift.open(mode) as stream:
            stream.write(struct.pack("q", shift_s))


@pytest.mark.slow
@pytest.mark.fault("clock set back by an hour", "continues")
def test_the_clock_is_set_back(start, unbroken, tmp_path):
    """For the run and its own server, in mid-training: equal digests, and no duration is negative or
    about an hour.
    """
    clock = Clock(tmp_path)
    own = {**clock.environment, "REASONLOOP_STATE": str(tmp_path / "state")}
    own |= {"PREFECT_API_URL": None}
    workspace = tmp_path / "run"
    run = start.run(workspace, *THREADS, **own)
    try:
        run.until(lambda: any(event["stage"] == "bootstrap" for event in read_events(workspace)))
        clock.set(-_HOUR_S)
        assert run.wait() == 0, run.stderr
    finally:
        assert start("server", "stop", **own).wait() == 0
    assert digests(workspace) == digests(unbroken)
    assert stamps_go_back(workspace)
    seconds = read_json(workspace / "reports" / "metrics.json")["compute"]["seconds"]
    assert all(0 <= value < _HOUR_S / 2 for value in seconds.values()), seconds


def stamps_go_back(workspace) -> bool:
    stamps = [event["at"] for event in read_events(workspace)]
    return stamps != sorted(stamps)
