"""`benchmarks.baseline`: pairs in turns, medians, and the CPU seconds of processes that outlive a command."""

import subprocess
import sys

from benchmarks.baseline import Sample, Tree, compare, measure_pairs


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


ORPHAN = """
import sys
from benchmarks.lib.processes import adopt_orphans, run_with_descendants
from pathlib import Path
adopt_orphans()
busy = f"{sys.executable} -c 'import time\\nwhile time.process_time() < 1: pass' &"
print(run_with_descendants(["sh", "-c", busy], Path(sys.argv[1]), folder=Path(".")))
"""


def test_a_process_that_outlives_its_parent_is_counted(tmp_path):
    """A loop of 1 CPU second in the background of a shell that has ended."""
    command = [sys.executable, "-c", ORPHAN, str(tmp_path / "log")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert float(done.stdout) >= 1
