"""`reasonloop apr run`."""

from rich.table import Table

from flows.cli.options import DEFAULT_PARAMS, DEFAULT_RUN, ParamsOptions, RunOptions
from flows.cli.orchestrated import orchestrated
from flows.terminal import PlainConsole
from pipeline_lib.storage.files import read_json

console = PlainConsole()


def run(*, options: RunOptions = DEFAULT_RUN, params: ParamsOptions = DEFAULT_PARAMS) -> None:
    """Run data, both trainings of a parallel and a serial model, and the comparison as one flow in a workspace.

    Finished stages are reused, so the same command resumes a broken run.

    **Examples:**

        reasonloop apr run
        reasonloop apr run --workspace /tmp/trial --set adaptive.sft.tokens=4000000
    """
    loaded = params.load(*options.overrides)
    with orchestrated(options.workspace.resolve(), loaded, console) as started:
        from flows.adaptive import run_adaptive  # noqa: PLC0415 - see `orchestrated`

        run_adaptive(started)
    folder = started.workspace.adaptive.reports
    table = Table("model", "T", "accuracy", "drawn tokens", "critical", box=None, pad_edge=False)
    for model in read_json(folder / "metrics.json")["models"]:
        found = model["accuracy"]
        accuracy = f"{found['value']:.1%} ({found['low']:.1%} to {found['high']:.1%})"
        counts = (f"{model[name]:.0f}" for name in ("drawn_tokens", "critical_tokens"))
        table.add_row(model["name"], f"{model['temperature']:g}", accuracy, *counts)
    console.print(table, markup=False)
    for name in ("metrics.json", "report.html"):
        console.print(str(folder / name), markup=False, highlight=False, soft_wrap=True)
