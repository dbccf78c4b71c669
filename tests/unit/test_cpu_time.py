"""CPU seconds of this process and of new children, divided between overlapping blocks."""

import subprocess
import sys
import threading
import time

from pipeline_lib.cpu_time import Meter, start_laps

BURN = "import time\nwhile time.process_time() < {seconds}: pass"


def burn(seconds: float) -> None:
    """Keep this thread busy for ``cpu_seconds``."""
    start = time.thread_time()
    while time.thread_time() - start < seconds:
        pass


def test_waiting_takes_no_cpu_seconds():
    """0.2 s of sleep are far less than 0.1 s of work."""
    meter = Meter()
    with meter.block() as waited:
        time.sleep(0.2)
    with meter.block() as worked:
        burn(0.3)
    assert waited.cpu_seconds < 0.1
    assert worked.cpu_seconds > 0.25


def test_a_finished_child_counts():
    """A process that used 0.3 s and has ended is part of the block, and of a lap."""
    meter, lap = Meter(), start_laps()
    with meter.block() as block:
        subprocess.run([sys.executable, "-c", BURN.format(seconds=0.3)], check=True)
    assert block.cpu_seconds > 0.25
    assert lap()[0] > 0.25
    assert lap()[0] < 0.25


def test_a_child_that_lives_on_counts_from_when_it_was_started():
    """A child that lives in two blocks is charged to each by its share."""
    meter = Meter()
    with meter.block() as first:
        child = subprocess.Popen(
            [sys.executable, "-c", BURN.format(seconds=0.3) + "\nprint(flush=True)\ninput()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        child.stdout.readline()
    with meter.block() as second:
        child.communicate(b"\n")
    assert first.cpu_seconds > 0.25
    assert second.cpu_seconds < 0.25


def test_overlapping_blocks_share_what_was_spent():
    """Two threads, 0.3 s each: the blocks sum to the time of the process, not to twice it."""
    meter = Meter()
    blocks = []
    both_open = threading.Barrier(2)

    def work() -> None:
        with meter.block() as block:
            both_open.wait()
            burn(0.3)
            both_open.wait()
        blocks.append(block)

    before = time.process_time()
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spent = time.process_time() - before
    total = sum(block.cpu_seconds for block in blocks)
    assert 0.5 < total < spent + 0.2
