"""Start-up time of the command in this tree and in another checkout, in turns.

Times ``--help``, ``stage prepare`` of a smoke run in an empty workspace, and the same stage again
when it is done. A local Prefect server must be running (``reasonloop server start``), so that its
start is not timed.

    git worktree add /tmp/before 47e753f
    python -m benchmarks.start_up --against /tmp/before --repeats 5
"""

import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass

from benchmarks.lib.command_line import add_output, make_parser, write_results
from benchmarks.lib.repository import REPOSITORY

STAGE = ("stage", "prepare", "--profile", "smoke", "--workspace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One call of the command."""

    tree: str
    case: str
    wall_seconds: float
    cpu_seconds: float


def main() -> None:
    """Print the medians, and write all calls as JSON."""
    parser = make_parser(__doc__)
    parser.add_argument("--against", type=pathlib.Path, required=True, help="the other checkout")
    parser.add_argument("--repeats", type=int, default=5)
    add_output(parser)
    options = parser.parse_args()
    trees = {"here": REPOSITORY, "against": options.against.resolve()}
    timings: list[Timing] = []
    for _ in range(options.repeats):
        for name, root in trees.items():
            with tempfile.TemporaryDirectory() as workspace:
                timings += [
                    _call(name, root, "--help", ("--help",)),
                    _call(name, root, "stage prepare", (*STAGE, workspace)),
                    _call(name, root, "stage prepare, done", (*STAGE, workspace)),
                ]
    for case in dict.fromkeys(timing.case for timing in timings):
        for name in trees:
            found = [one for one in timings if (one.tree, one.case) == (name, case)]
            wall = statistics.median(one.wall_seconds for one in found)
            cpu = statistics.median(one.cpu_seconds for one in found)
            print(f"{case:<20} {name:<8} {wall:6.2f} s wall, {cpu:6.2f} s CPU")
    write_results(options.output, [asdict(timing) for timing in timings])


def _call(tree: str, root: pathlib.Path, case: str, arguments: tuple[str, ...]) -> Timing:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run(
        ["/usr/bin/env", f"PYTHONPATH={root}", sys.executable, "-m", "flows.cli", *arguments],
        cwd=root,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return Timing(tree=tree, case=case, wall_seconds=wall, cpu_seconds=cpu)


if __name__ == "__main__":
    main()
