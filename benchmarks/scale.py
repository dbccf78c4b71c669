"""Time and memory of verify, build, evaluate and report by the number of recorded paths.

Each size is measured in a process of its own. Stages do the same work on few paths first: once to load
what they import, then again for the time that does not depend on the number of paths, which is
subtracted. Seconds are CPU seconds; memory is the highest resident memory of the process in a stage.

    python -m benchmarks.scale --paths 1000 10000 100000 --output scale.json
"""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping

from benchmarks.lib.command_line import add_output, make_parser, write_results
from benchmarks.lib.recorded_paths import write_paths, write_problems
from pipeline_lib.engines.identity import model_identity
from pipeline_lib.params.whole import Params
from pipeline_lib.params_file import load_params
from pipeline_lib.store.workspace import DrawFolders
from pipeline_lib.systems.loop import bootstrap, build, evaluate, prepare, report, train, verify
from pipeline_lib.systems.loop.draw import Draw
from pipeline_lib.systems.stage import Run

FEW_PATHS = 100
REPEATS, REPEATED_PATHS = 5, 20_000
SHARD_PATHS = 5000
"""Paths of a shard, whatever the number of problems."""
SETTINGS = (
    *("rounds=1", "train.control=false", "train.method=sft", "train.steps=2"),
    *("build.worked_solutions=false", "bootstrap.steps=2", "evaluate.ks=[1]"),
)
Cell = Mapping[str, float]
"""Seconds and MiB by stage."""


def settings(paths_each: int) -> Params:
    """Params of a run with ``paths_each`` paths per problem."""
    # An evaluation asks for two paths or more; one is recorded all the same.
    own = [f"sample.num_paths={paths_each}", f"evaluate.num_paths={max(2, paths_each)}"]
    return load_params(profile="smoke", overrides=[*SETTINGS, *own])


def make_template(root: pathlib.Path) -> None:
    """A workspace with small policies, and training data of few paths."""
    run = Run(root=root, params=settings(1))
    prepare.prepare(run)
    bootstrap.bootstrap(run)
    record(run, FEW_PATHS)
    judge(run, run.folders, "train")
    build.build(run)
    train.train(run)


def record(run: Run, num_paths: int) -> None:
    """Replace problems and paths of the round and of the evaluation by ``num_paths`` recorded paths."""
    workspace, paths_each = run.workspace, run.params.sample.num_paths
    problems = num_paths // paths_each
    tables = {
        run.folders.paths: run.start,
        workspace.evaluation("base").paths: workspace.base,
        workspace.evaluation("trained").paths: run.policy,
    }
    for split in ("train", "test"):
        shutil.rmtree(workspace.problems(split), ignore_errors=True)
        write_problems(workspace.problems(split), problems)
    for folder, policy in tables.items():
        shutil.rmtree(folder.parent if "evaluation" in folder.parts else folder, ignore_errors=True)
        write_paths(
            folder,
            problems=problems,
            paths_each=paths_each,
            shard_size=max(1, SHARD_PATHS // paths_each),
            model=model_identity(str(policy)) if policy.is_dir() else "none",
        )


def judge(run: Run, folders: DrawFolders, split: str) -> None:
    """Verify the paths of ``folders``, shard by shard."""
    draw = Draw(
        run=run,
        name="verdicts",
        seed_name="verdicts",
        problems=run.workspace.problems(split),
        model="none",
        folders=folders,
        sample=run.params.sample,
    )
    planned = verify.plan_shards(draw)
    for shard in planned:
        verify.verify(shard)
    verify.seal(planned)


def verify_all(run: Run) -> None:
    """Verdicts of the round."""
    judge(run, run.folders, "train")


def evaluate_all(run: Run) -> None:
    """Verdicts of two policies, and their comparison."""
    for policy in ("base", "trained"):
        judge(run, run.workspace.evaluation(policy), "test")
    evaluate.compare(run)


def write_report(run: Run) -> None:
    """The report."""
    report.write_reports(run)


STAGES: Mapping[str, Callable[[Run], None]] = {
    "verify": verify_all,
    "build": build.build,
    "evaluate": evaluate_all,
    "report": write_report,
}


def measure(template: pathlib.Path, num_paths: int, paths_each: int) -> dict[str, float]:
    """CPU seconds and MiB by stage, and CPU seconds by stage for few paths."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run(root=pathlib.Path(folder) / "run", params=settings(paths_each))
        shutil.copytree(template, run.root)
        few = [_run_stages(run, FEW_PATHS) for _ in range(REPEATS + 1)][1:]
        # A small size takes so little time that it is repeated.
        repeats = max(1, min(REPEATS, REPEATED_PATHS // num_paths))
        many = [_run_stages(run, num_paths) for _ in range(repeats)]
    fixed = {f"fixed {name}": statistics.median(cell[name] for cell in few) for name in STAGES}
    found = {name: statistics.median(cell[name] for cell in many) for name in many[0]}
    return found | fixed


def _run_stages(run: Run, num_paths: int) -> dict[str, float]:
    record(run, num_paths)
    for folder in (run.folders.verdicts, run.folders.traindata, run.workspace.evaluation_result):
        shutil.rmtree(folder, ignore_errors=True)
    found: dict[str, float] = {}
    for name, work in STAGES.items():
        pathlib.Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets the peak
        start = time.process_time()
        work(run)
        found[name] = time.process_time() - start
        found[f"{name} MiB"] = _peak_mib()
    return found


def _peak_mib() -> float:
    status = pathlib.Path("/proc/self/status").read_text(encoding="ascii")
    [peak] = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(peak.split()[1]) / 1024


def table(cells: Mapping[tuple[int, int], Cell]) -> list[str]:
    """Rows of Markdown: microseconds per path beyond the fixed time, and memory, by stage."""
    heads = [*(f"{name} us/path" for name in STAGES), "all but evaluate us/path"]
    heads += [f"{name} MiB" for name in STAGES]
    lines = [
        "| paths | per problem | " + " | ".join(heads) + " |",
        "| --- " * (2 + len(heads)) + "|",
    ]
    for (num_paths, paths_each), cell in cells.items():
        beyond = {name: cell[name] - cell[f"fixed {name}"] for name in STAGES}
        seconds = [*beyond.values(), sum(beyond.values()) - beyond["evaluate"]]
        each = [f"{1e6 * one / (num_paths - FEW_PATHS):.0f}" for one in seconds]
        memory = [f"{cell[f'{name} MiB']:.0f}" for name in STAGES]
        lines.append("| " + " | ".join([f"{num_paths:,}", str(paths_each), *each, *memory]) + " |")
    return lines


def main() -> None:
    """Measure each size in a process, print the table, write JSON."""
    parser = make_parser(__doc__)
    parser.add_argument("--paths", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--per-problem", type=int, nargs="+", default=[10, 1])
    parser.add_argument("--template", type=pathlib.Path, help=argparse.SUPPRESS)
    add_output(parser)
    arguments = parser.parse_args()
    if arguments.template:
        cell = measure(arguments.template, arguments.paths[0], arguments.per_problem[0])
        print(json.dumps(cell))
        return
    with tempfile.TemporaryDirectory() as folder:
        template = pathlib.Path(folder) / "template"
        make_template(template)
        cells: dict[tuple[int, int], Cell] = {}
        for paths_each in arguments.per_problem:
            for num_paths in arguments.paths:
                cells[num_paths, paths_each] = in_process(template, num_paths, paths_each)
                print(f"{num_paths} paths, {paths_each} per problem: done", file=sys.stderr)
    print("\n".join(table(cells)))
    write_results(
        arguments.output,
        [{"paths": n, "per_problem": each, **cell} for (n, each), cell in cells.items()],
    )


def in_process(template: pathlib.Path, num_paths: int, paths_each: int) -> Cell:
    """:func:`measure` in a new process."""
    command = [sys.executable, "-m", "benchmarks.scale", "--template", str(template)]
    sizes = ["--paths", str(num_paths), "--per-problem", str(paths_each)]
    done = subprocess.run([*command, *sizes], capture_output=True, text=True, check=True)
    cell: Cell = json.loads(done.stdout.splitlines()[-1])
    return cell


if __name__ == "__main__":
    main()
