"""Overhead of Prefect and Ray: stages of the loop as plain function calls against the real flows.

Both sides process the same shards with the same number of worker processes; the plain side uses a
process pool. Their outputs are compared by digest.

    python -m benchmarks.orchestration --profile smoke --output orchestration.json
"""

import multiprocessing
import pathlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager

from benchmarks.lib.command_line import add_output, make_parser, write_results
from flows.server import server
from pipeline_lib.params.whole import Params
from pipeline_lib.params_file import load_params
from pipeline_lib.store import manifests
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.systems.stage import Run

Seconds = dict[str, float]


@contextmanager
def clocked(seconds: Seconds, name: str) -> Iterator[None]:
    """Add the block's duration to ``seconds[name]``."""
    start = time.perf_counter()
    yield
    seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - start


def bare(root: pathlib.Path, params: Params) -> Seconds:
    """Sample, verify and build by calling the functions behind the tasks."""
    from pipeline_lib.systems.loop import build, sample, verify  # noqa: PLC0415 - after the server's address is set
    from pipeline_lib.systems.loop.draw import round_draw  # noqa: PLC0415 - after the server's address is set

    run = Run(root=root, params=params)
    draw = round_draw(run)
    seconds: Seconds = {}
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(params.execution.workers, mp_context=spawn) as pool:
        with clocked(seconds, "sample"):
            drawn = sample.plan_shards(draw)
            list(pool.map(sample.sample, drawn))
            sample.seal(drawn)
        with clocked(seconds, "verify"):
            judged = verify.plan_shards(draw)
            list(pool.map(verify.verify, judged))
            verify.seal(judged)
    with clocked(seconds, "build"):
        build.build(run)
    return seconds


def orchestrated(root: pathlib.Path, params: Params) -> Seconds:
    """Run the same stages as Prefect flows on Ray."""
    from flows.ray.runners import cluster  # noqa: PLC0415 - after the server's address is set
    from flows.system import one_stage  # noqa: PLC0415 - after the server's address is set

    run = Run(root=root, params=params)
    seconds: Seconds = {}
    start = time.perf_counter()
    with cluster(params.execution):
        seconds["start Ray"] = time.perf_counter() - start
        for name in ("sample", "verify", "build"):
            with clocked(seconds, name):
                one_stage(name, run)
        start = time.perf_counter()
    seconds["stop Ray"] = time.perf_counter() - start
    return seconds


def main() -> None:
    """Run both sides, print the overhead, write JSON."""
    parser = make_parser(__doc__)
    parser.add_argument("--profile", default=None, help="profile of the params; default: none")
    parser.add_argument("--problems", type=int, default=1000, help="train problems to sample")
    add_output(parser)
    arguments = parser.parse_args()
    params = load_params(
        profile=arguments.profile,
        # Enough bootstrap steps for some paths to be right.
        overrides=[
            f"prepare.train_problems={arguments.problems}",
            "bootstrap.steps=300",
            "execution.runner=ray",
        ],
    )
    server.ensure()
    from pipeline_lib.systems.loop.bootstrap import bootstrap  # noqa: PLC0415 - after the server's address is set
    from pipeline_lib.systems.loop.prepare import prepare  # noqa: PLC0415 - after the server's address is set

    figures: dict[str, Seconds] = {}
    digests = []
    with tempfile.TemporaryDirectory() as folder:
        first = Workspace(pathlib.Path(folder) / "first")
        prepare(Run(root=first.root, params=params))
        bootstrap(Run(root=first.root, params=params))
        second = Workspace(pathlib.Path(folder) / "second")
        shutil.copytree(first.root, second.root)
        sides = (("bare", bare, first), ("prefect + ray", orchestrated, second))
        for name, run, workspace in sides:
            figures[name] = run(workspace.root, params)
            digests.append(manifests.read_manifest(workspace.round_folders(1).verdicts).digest)
    report(figures, num_shards=-(-arguments.problems // params.sample.shard_size))
    print("same verdicts:", digests[0] == digests[1])
    write_results(arguments.output, figures)


def report(figures: dict[str, Seconds], num_shards: int) -> None:
    """Print both sides, and the overhead as a share and per shard."""
    plain, full = figures["bare"], figures["prefect + ray"]
    print(f"{'stage':<12}{'bare s':>10}{'run s':>10}")
    for name in full:
        print(f"{name:<12}{plain.get(name, 0.0):>10.2f}{full[name]:>10.2f}")
    total, bare_total = sum(full.values()), sum(plain.values())
    over = total - bare_total
    print(f"{'total':<12}{bare_total:>10.2f}{total:>10.2f}")
    once = full["start Ray"] + full["stop Ray"]
    print(f"overhead: {over:.2f} s, {over / total:.1%} of the run")
    # Each shard is a sampling task and a verification task.
    print(f"of it once a run: {once:.2f} s; a shard: {(over - once) / num_shards:.2f} s")


if __name__ == "__main__":
    main()
