"""A training by one process and by N of Ray Train on this machine: seconds to the first step, seconds of a step.

Both train on the same data and start, in turns, each with one thread a process: GRPO of a small policy, its batch of 64
paths shared by the processes. The start-up of N includes Ray and the imports of each process. On a machine whose cores
are in use, or with fewer cores than processes, the ratio says nothing.

About 6 minutes of two cores for two processes and two repeats. The same command goes on.

    python -m benchmarks.distributed --folder OUT
    python -m benchmarks.distributed --folder OUT --processes 4 --repeats 3
"""

import itertools
import pathlib
import shutil
from dataclasses import asdict, dataclass
from datetime import datetime
from statistics import median

from benchmarks.lib.command_line import add_output, make_parser, write_results
from benchmarks.lib.commands import run_once
from pipeline_lib.telemetry import read_events

SMOKE = ("--profile", "smoke")
TRAIN = {
    "train.steps": 40,
    "train.warm_start_steps": 0,
    "train.batch_size": 16,
    "train.micro_batch_size": 16,
    "train.checkpoint_every": 20,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One training."""

    processes: int
    start_seconds: float
    """From the begin of the training's stage to its first step."""
    step_seconds: float
    """Median."""


def main() -> None:
    """Train what is missing, and print the medians."""
    parser = make_parser(__doc__)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=2)
    add_output(parser)
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "data"
    run_once(folder, "data", "run", *SMOKE, "--runner", "thread", "--workspace", data)
    timings = []
    for repeat in range(options.repeats):
        for count in (1, options.processes):
            name = f"{count}-{repeat}"
            workspace = folder / name
            if not workspace.exists():
                for part in ("data", "models/base"):
                    shutil.copytree(data / part, workspace / part)
            params = TRAIN | {"train.processes": count}
            run_once(
                folder, name, "stage", "train", *SMOKE, "--workspace", workspace, params=params
            )
            timings.append(_timing(workspace, count))
    for count in (1, options.processes):
        own = [one for one in timings if one.processes == count]
        start = median(one.start_seconds for one in own)
        step = median(one.step_seconds for one in own)
        print(f"{count} processes: {start:5.1f} s to the first step, {1000 * step:6.0f} ms a step")
    write_results(options.output, [asdict(one) for one in timings])


def _timing(workspace: pathlib.Path, count: int) -> Timing:
    events = read_events(workspace)
    ends = [_at(one) for one in events if one["event"] == "work" and one["stage"] == "train"]
    [stage] = [one for one in events if one["event"] == "stage" and one["stage"] == "train"]
    start = ends[0] - (_at(stage) - float(stage["seconds"]))
    steps = [after - before for before, after in itertools.pairwise(ends)]
    return Timing(processes=count, start_seconds=start, step_seconds=median(steps))


def _at(event: dict[str, str]) -> float:
    return datetime.fromisoformat(event["at"]).timestamp()


if __name__ == "__main__":
    main()
