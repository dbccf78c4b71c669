"""Steps of all processes of a server share no GPU."""

import subprocess
import sys

import pytest

from benchmarks.lib.repository import REPOSITORY

HOLDER = """
import sys, time
from tasks import gpu

gpu.gpu_ids = lambda: sys.argv[1:]  # no GPU is needed to wait for one
with gpu.gpu_slot(wanted=True):
    print("begin", time.monotonic(), flush=True)
    time.sleep(1.0)
    print("end", time.monotonic(), flush=True)
"""


def spans(environment, *seen):
    """When each of two processes, which see the GPUs of their ids, held its slots."""
    both = [
        subprocess.Popen(
            [sys.executable, "-c", HOLDER, *ids],
            cwd=REPOSITORY,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for ids in seen
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
    """Steps on one GPU follow each other, also where one of them sees more; steps on two run together."""
    for one, other, together in (("a", "a", False), ("ab", "b", False), ("a", "b", True)):
        (_, first_end), (second_begin, _) = spans(reasonloop.environment, one, other)
        assert (second_begin < first_end) == together, f"{one} and {other}"


def test_without_a_gpu_there_is_nothing_to_wait_for():
    """No server is asked: there is none at this address."""
    done = subprocess.run(
        [sys.executable, "-c", HOLDER],
        cwd=REPOSITORY,
        env={"PREFECT_API_URL": "http://127.0.0.1:9/api", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
