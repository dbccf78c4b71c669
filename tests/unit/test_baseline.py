"""`benchmarks.baseline`: pairs in turns, medians, and the CPU seconds of processes that outlive a command."""

import os
import sys

import pytest

from benchmarks.baseline import Sample, Tree, compare, measure_pairs
from benchmarks.lib.processes import CPU_GROUPS, run_with_descendants


def test_pairs_in_turns_are_continued(tmp_path):
    """The order changes from pair to pair; pairs that are there are not measured again."""
    trees = {name: Tree(root=tmp_path, scratch=tmp_path / name) for name in ("here", "against")}
    called = []

    def measure(tree):
        called.append(tree.scratch.name)
        return Sample(cpu_s=len(called), tokens=10)

    pairs = []
    lengths = [len(pairs) for _ in measure_pairs(measure, trees, pairs, count=2)]
    lengths += [len(pairs) for _ in measure_pairs(measure, trees, pairs, count=3)]
    assert lengths == [1, 2, 3]
    assert called == ["here", "against", "against", "here", "here", "against"]
    assert [pair["here"]["cpu_s"] for pair in pairs] == [1, 4, 5]
    found = compare("sft", pairs)
    assert (found.ratio, found.low, found.high) == (5 / 6, 1 / 2, 4 / 3)
    assert (found.here_s, found.against_s, found.amount) == (4, 3, 1)


IGNORES = """
import signal, subprocess, sys, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", sys.argv[1]])
time.sleep(3)
"""
BUSY = "import time\nwhile time.process_time() < 1: pass"


@pytest.mark.skipif(not os.access(CPU_GROUPS, os.W_OK), reason="no control group can be made here")
def test_processes_that_nobody_waits_for_are_counted(tmp_path):
    """Of 1 CPU second each: one outlives its shell, the parent of the other ignores its end."""
    command = ["sh", "-c", '"$1" -c "$2" & "$1" -c "$3" "$2"', "sh", sys.executable, BUSY, IGNORES]
    assert 2 <= run_with_descendants(command, tmp_path / "log", folder=tmp_path) < 4
    assert not (CPU_GROUPS / f"reasonloop-{os.getpid()}").exists()
