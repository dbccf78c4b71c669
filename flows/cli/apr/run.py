"""`reasonloop apr run`."""

import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

from rich.table import Table

from flows.cli.options import (
    DEFAULT_PARAMS,
    DEFAULT_SEEDS,
    DEFAULT_WORKSPACE,
    ParamsOptions,
    SeedOptions,
    WorkspaceOptions,
)
from flows.cli.orchestrated import run_whole
from flows.cli.seeds import run_each
from flows.run.terminal import console, say
from pipeline_lib.params.whole import Params
from pipeline_lib.store.files import read_json
from pipeline_lib.study.pages.wording import points
from pipeline_lib.systems.apr.stages import APR


def run(
    *,
    options: WorkspaceOptions = DEFAULT_WORKSPACE,
    params: ParamsOptions = DEFAULT_PARAMS,
    seeds: SeedOptions = DEFAULT_SEEDS,
) -> None:
    """Run data, both trainings of a parallel and a serial model, and the comparison as one flow in a workspace.

    The condition of each model is the most accurate one on the valid problems. Finished stages are reused, so the
    same command resumes a broken run.

    **Examples:**

        reasonloop apr run
        reasonloop apr run --workspace /tmp/trial --set apr.sft.tokens=4000000
        reasonloop apr run --workspace /tmp/trial --seeds 7,8,9
    """
    run_each(APR.name, options, params, seeds, _run)


def _run(root: pathlib.Path, params: Params) -> None:
    run = run_whole(APR, root, params)
    folder = run.workspace.apr.reports
    metrics = read_json(folder / "metrics.json")
    console.print(_accuracies(metrics["models"]), markup=False)
    console.print(_differences(metrics["paired"]), markup=False)
    for name in ("metrics.json", "report.html"):
        say(str(folder / name))


def _accuracies(models: Iterable[Mapping[str, Any]]) -> Table:
    table = _table("model", "condition", "T", "accuracy", "drawn tokens", "critical")
    for model in models:
        found = model["accuracy"]
        table.add_row(
            model["name"],
            model["condition"] or "none",
            f"{model['temperature']:g}",
            f"{found['value']:.1%} ({found['low']:.1%} to {found['high']:.1%})",
            *(f"{model[name]:.0f}" for name in ("drawn_tokens", "critical_tokens")),
        )
    return table


def _differences(pairs: Iterable[Mapping[str, Any]]) -> Table:
    table = _table("model", "minus", "T", "accuracy in points")
    for pair in pairs:
        value, low, high = (points(pair["difference"][name]) for name in ("value", "low", "high"))
        table.add_row(
            pair["model"], pair["base"], f"{pair['temperature']:g}", f"{value} ({low} to {high})"
        )
    return table


def _table(*columns: str) -> Table:
    return Table(*columns, box=None, pad_edge=False)
