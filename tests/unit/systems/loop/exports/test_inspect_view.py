"""The viewer itself opens what we write."""

import pathlib
import subprocess
import sys
import time
from urllib.parse import quote

import httpx
import pytest

from pipeline_lib.systems.loop.exports.inspect_log import write_inspect_log
from tests.unit.systems.loop.exports.finished_policies import finished

START_TIMEOUT_S = 120
PORT = 7611


@pytest.fixture
def viewer(tmp_path):
    """`inspect view` on a folder of two logs, on this machine only."""
    run = finished(["cwflcw", "wwwwxe"], ["ccflcw", "ccwwxe"], ks=(1, 2))
    for policy in run.groups:
        write_inspect_log(run, policy, tmp_path / f"{policy}.eval")
    command = pathlib.Path(sys.executable).with_name("inspect")
    place = ["--host", "127.0.0.1", "--port", str(PORT)]
    process = subprocess.Popen([command, "view", "start", "--log-dir", tmp_path, *place])
    try:
        yield f"http://127.0.0.1:{PORT}"
    finally:
        process.terminate()
        process.wait()


def answer(url):
    """The viewer's response, once it runs."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            found = httpx.get(url, timeout=30)
        except httpx.TransportError:
            assert time.monotonic() < deadline, "the viewer did not start"
            time.sleep(0.2)
        else:
            return found.raise_for_status().json()


@pytest.mark.slow
def test_the_viewer_lists_and_opens_both_logs(viewer):
    """Its list names two tasks; a whole log comes with all 12 paths and their scores."""
    listed = answer(f"{viewer}/api/logs")["files"]
    assert {entry["task"] for entry in listed} == {"countdown_base", "countdown_trained"}
    name = next(entry["name"] for entry in listed if entry["task"] == "countdown_trained")
    log = answer(f"{viewer}/api/logs/{quote(name, safe='')}")
    assert log["eval"]["model"] == "reasonloop/trained-0123456789abcdef"
    assert len(log["samples"]) == 12
    scores = [s["scores"]["strict"]["value"] for s in log["samples"] if "scores" in s]
    assert (scores.count("C"), scores.count("I")) == (5, 5)
