"""What a person sees of a run: a line per stage while it works, and the summary at its end.

The view follows the workspace's events, so it shows the same whether the work is done in this
process, in threads or by Ray workers.
"""

import pathlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Literal

from pydantic import TypeAdapter
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from flows import server
from flows.commands import print_table
from flows.watch import SERVER_POLL_S, server_problem, watched
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.environment import environment
from pipeline_lib.params.whole import Params
from pipeline_lib.serving.engines.table import ENGINES, engine_named
from pipeline_lib.stages.latent import LATENT
from pipeline_lib.stages.loop import LOOP
from pipeline_lib.stages.stage import Run
from pipeline_lib.storage.files import read_json
from pipeline_lib.storage.manifests import MANIFEST_NAME
from pipeline_lib.storage.workspace import Workspace
from pipeline_lib.telemetry import Event, events_size, read_new_events

PolicyName = Literal["base", "trained"]
_REFRESH_S = 0.25
TERMINATED = 143


class ProgressView:
    """One bar per stage, or per draw of it, moved by the events that workers write."""

    def __init__(self, root: pathlib.Path, progress: Progress) -> None:
        self._root = root
        self._progress = progress
        self._offset = events_size(root)
        self._bars: dict[str, TaskID] = {}
        self._done: dict[str, set[int]] = {}

    def refresh(self) -> None:
        """Read the events that came since the last time."""
        new = read_new_events(self._root, self._offset)
        self._offset = new.offset
        for event in new.events:
            if event["event"] == "work":
                self._show(event)

    def _show(self, event: Event) -> None:
        name: str = event.get("label") or event["stage"]
        if name not in self._bars:
            self._bars[name] = self._progress.add_task(name, total=event["total"])
        done = self._done.setdefault(name, set())
        done.add(event["done"])
        # Shards end in any order, so they are counted; steps come in order, and a training that
        # is continued starts in the middle.
        completed = event["done"] if event.get("unit") == "step" else len(done)
        self._progress.update(self._bars[name], completed=completed, total=event["total"])


@contextmanager
def shown_progress(root: pathlib.Path, console: Console) -> Iterator[None]:
    """Show the bars while the block runs."""
    columns = (
        TextColumn("  {task.description:<22}"),
        BarColumn(bar_width=28),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    stop = threading.Event()
    with Progress(*columns, console=console) as progress:
        view = ProgressView(root, progress)

        def follow() -> None:
            while not stop.wait(_REFRESH_S):
                view.refresh()

        follower = threading.Thread(target=follow, name="progress", daemon=True)
        follower.start()
        try:
            yield
        finally:
            stop.set()
            follower.join()
            view.refresh()


def run_whole_loop(root: pathlib.Path, params: Params, console: Console) -> None:
    """Run `post_training` under a Prefect server, then print the summary."""
    _run(root, params, console, lambda module: module.run_post_training)
    print_summary(Workspace(root), console)
    console.print(f"Prefect UI: {server.ensure()}", soft_wrap=True)


def print_summary(workspace: Workspace, console: Console) -> None:
    """Scores, differences, compute, tokens, seconds and headline of a finished run."""
    from pipeline_lib.evaluation.result import RESULT_NAME, EvaluationResult  # noqa: PLC0415 - scipy
    from pipeline_lib.reporting import tables  # noqa: PLC0415 - as above
    from pipeline_lib.reporting.compute_spent import ComputeSpent  # noqa: PLC0415 - as above
    from pipeline_lib.reporting.metrics import TokenCount  # noqa: PLC0415 - as above

    result = EvaluationResult.from_json(
        (workspace.evaluation_result / RESULT_NAME).read_text("utf-8")
    )
    figures = read_json(workspace.metrics)
    found = figures["seconds"]
    seconds = {stage.name: found[stage.name] for stage in LOOP if stage.name in found}
    tokens = {name: TokenCount(**spent) for name, spent in figures["tokens"].items()}
    print_table(console, tables.score_table(result.summaries))
    for table in tables.paired_tables(result):
        print_table(console, table)
    spent = TypeAdapter(ComputeSpent).validate_python(figures["compute"])
    print_table(console, tables.compute_table(spent))
    total = figures["seconds"]["total"]
    print_table(console, tables.cost_table(seconds, tokens, total=total))
    console.print(f"\n[bold]{figures['headline']['title']}[/]")
    for sentence in figures["headline"]["sentences"]:
        console.print(sentence)
    console.print(
        f"\nreport:     {workspace.reports / 'report.html'}", soft_wrap=True, markup=False
    )
    console.print(f"metrics:    {workspace.metrics}", soft_wrap=True, markup=False)


def run_one_stage(name: str, root: pathlib.Path, params: Params, console: Console) -> None:
    """Run one stage under a Prefect server."""

    def pick(module: Any) -> Callable[[Any], None]:
        if name in {stage.name for stage in LATENT}:
            from flows.latent import latent  # noqa: PLC0415 - Prefect, as below

            return lambda run: latent(run, name)
        return lambda run: module.run_stage(name, run)

    _run(root, params, console, pick)


def run_latent(root: pathlib.Path, params: Params, console: Console) -> pathlib.Path:
    """Run `latent` under a Prefect server; the folder of its evaluation."""

    def pick(_module: Any) -> Callable[[Any], None]:
        from flows.latent import latent  # noqa: PLC0415 - Prefect, as below

        return latent

    _run(root, params, console, pick)
    return Workspace(root).latent.evaluation


def run_test_time_compute(
    root: pathlib.Path, params: Params, console: Console, *, policies: tuple[PolicyName, ...]
) -> None:
    """Run `compute_curves` for each policy under a Prefect server, then print the tables."""
    _require_finished_run(Workspace(root), params, policies)

    def pick(_module: Any) -> Callable[[Any], None]:
        from flows.compute_curves import run_compute_curves  # noqa: PLC0415 - Prefect, as below

        return lambda run: run_compute_curves(run, policies)

    _run(root, params, console, pick)
    from pipeline_lib.reporting.compute_plots import compute_table  # noqa: PLC0415 - matplotlib
    from pipeline_lib.reporting.compute_report import REPORT_NAME, read_curves  # noqa: PLC0415

    for curves in read_curves(Workspace(root)):
        if curves.policy in policies:
            print_table(console, compute_table(curves))
    console.print(
        f"\ncurves:     {Workspace(root).reports / REPORT_NAME}", soft_wrap=True, markup=False
    )


def _require_finished_run(
    workspace: Workspace, params: Params, policies: tuple[PolicyName, ...]
) -> None:
    trained = workspace.policy(params.rounds, rounds=params.rounds)
    needed = {"base": workspace.base, "trained": trained}
    for folder in (workspace.problems("test"), *(needed[policy] for policy in policies)):
        if not (folder / MANIFEST_NAME).is_file():
            raise BadInputError(
                f"{folder}: not there, or not finished; run `reasonloop run` on this workspace first"
            )


def _run(
    root: pathlib.Path,
    params: Params,
    console: Console,
    pick: Callable[[Any], Callable[[Any], None]],
) -> None:
    signal.signal(signal.SIGTERM, _terminate)
    _preflight(params)
    with Workspace(root).lease():
        console.print(f"Prefect UI: {server.ensure()}", soft_wrap=True)
        # Prefect reads the server's address when it is imported.
        from prefect import tags  # noqa: PLC0415

        from flows import post_training  # noqa: PLC0415

        gone = server_problem(environment("PREFECT_API_URL") or "")
        with (
            watched(gone, poll_s=SERVER_POLL_S),
            shown_progress(root, console),
            tags(*_tags(params)),
        ):
            pick(post_training)(Run(root=root, params=params))


def _tags(params: Params) -> list[str]:
    """What runs are looked for by in the UI."""
    return [params.prepare.dataset, params.train.method, f"seed-{params.seed}"]


def _preflight(params: Params) -> None:
    """Bad input that can be seen at once is refused before a server or a worker is started."""
    if params.prepare.dataset != "countdown":
        from pipeline_lib.problems.splits import make_splits  # noqa: PLC0415 - only then needed

        # All but the golds, whose check takes a process of its own.
        make_splits(params.prepare, seed=params.seed, gold_problem=lambda _: None)
    model = params.bootstrap.model
    if model is not None and _is_path(model) and not pathlib.Path(model).is_dir():
        raise BadInputError(f"bootstrap.model: {model} is no folder; give one, or a hub id")
    if engine_named(params.serve.engine).is_external:
        others = [name for name, engine in ENGINES.items() if not engine.is_external]
        raise BadInputError(
            f"serve.engine={params.serve.engine}: the loop draws from policies that it trains, and "
            f"a running server has its own model; set one of {', '.join(others)} (`reasonloop "
            "sample` can use a running server)"
        )


def _is_path(model: str) -> bool:
    """Whether a model can only be a folder: a hub id is NAME or OWNER/NAME."""
    return model.startswith((".", "/", "~")) or model.count("/") > 1


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    sys.exit(TERMINATED)
