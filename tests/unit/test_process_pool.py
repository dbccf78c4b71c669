import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from pipeline_lib.errors import ReasonloopError
from pipeline_lib.process_pool import results_of


def process_of(number: int) -> tuple[int, int]:
    return number * number, os.getpid()


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def die(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.parametrize("workers", [1, 2, 9])
def test_each_piece_has_one_result(workers: int):
    found = dict(results_of(process_of, [3, 4, 5], workers=workers))
    assert [found[place][0] for place in range(3)] == [9, 16, 25]
    assert (os.getpid() in {process for _, process in found.values()}) == (workers == 1)


def test_no_pieces_need_no_worker():
    assert [*results_of(process_of, [], workers=2)] == []


def test_a_killed_worker_ends_the_work_with_a_line():
    with pytest.raises(ReasonloopError, match="lower execution"):
        list(results_of(die, [1, 2], workers=2))


def test_workers_end_with_a_killed_parent():
    code = (
        "from pipeline_lib.process_pool import results_of\n"
        "from tests.unit.test_process_pool import sleep\n"
        "if __name__ == '__main__': list(results_of(sleep, [0, 600, 600, 600], workers=2))"
    )
    parent = subprocess.Popen([sys.executable, "-c", code])
    try:
        deadline = time.monotonic() + 60
        while len(children := psutil.Process(parent.pid).children(recursive=True)) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        parent.kill()
        parent.wait()
    _, alive = psutil.wait_procs(children, timeout=60)
    for one in alive:
        one.kill()
    assert not alive
