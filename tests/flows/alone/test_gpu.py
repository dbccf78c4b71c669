"""Steps of all processes of a server share no GPU."""

import subprocess
import sys

import pytest

from benchmarks.lib.repository import REPOSITORY

HOLDER = """
import sys, time
from tasks import gpu

gpu.visible_gpus = lambda: int(sys.argv[1])  # no GPU is needed to wait for one
with gpu.gpu_slot(wanted=True):
    print("begin", time.monotonic(), flush=True)
    time.sleep(1.0)
    print("end", time.monotonic(), flush=True)
"""


def spans(environment, gpus):
    """When each of two processes that see ``gpus`` GPUs held its slots."""
    both = [
        subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(gpus)],
            cwd=REPOSITORY,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    found = []
    for process in both:
        out, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors
        begin, end = (float(line.split()[1]) for line in out.splitlines())
        found.append((begin, end))
    return sorted(found)


@pytest.mark.slow
def test_slots_follow_the_gpus_that_a_step_sees(reasonloop):
    """The limit is made by whoever comes first, and raised by the first step that sees more GPUs."""
    for gpus, limit, together in ((1, 1, False), (2, 2, False), (1, 2, True)):
        (_, first_end), (second_begin, _) = spans(reasonloop.environment, gpus)
        assert (second_begin < first_end) == together, f"{gpus} of {limit}"


def test_without_a_gpu_there_is_nothing_to_wait_for():
    """No server is asked: there is none at this address."""
    done = subprocess.run(
        [sys.executable, "-c", HOLDER, "0"],
        cwd=REPOSITORY,
        env={"PREFECT_API_URL": "http://127.0.0.1:9/api", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
