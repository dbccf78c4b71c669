"""`reasonloop doctor`: checks of this machine and of what a run may use, with a remedy per finding."""

import dataclasses
import json
import sys
from collections.abc import Iterable, Iterator
from typing import Annotated

from cyclopts import Parameter
from rich.markup import escape

from flows.cli.finding import Finding
from flows.cli.options import DEFAULT_PARAMS, DEFAULT_RUN, ParamsOptions, RunOptions
from flows.cli.platform import machine_checks, service_checks
from flows.run.terminal import console
from pipeline_lib.params.whole import Params

_MARKS = {True: "[green]ok      [/]", False: "[red]missing [/]", None: "[yellow]optional[/]"}


def doctor(
    *,
    as_json: Annotated[
        bool, Parameter(name="--json", negative="", help="Print the findings as JSON.")
    ] = False,
    options: RunOptions = DEFAULT_RUN,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Check this machine for a run: packages, sandbox, memory, disk, server, Ray, engine, DVC.

    Each line that is not ok names a remedy. Exit code 1 if a part is missing that the run needs.

    **Examples:**

        reasonloop doctor
        reasonloop doctor --engine vllm --workspace /shared/trial --json
    """
    loaded = params.load(options.given)
    findings = list(_findings(options, loaded))
    ok = all(finding.ok is not False for finding in findings)
    if as_json:
        rows = [dataclasses.asdict(finding) for finding in findings]
        console.print_json(json.dumps({"ok": ok, "findings": rows}))
    else:
        _print_lines(findings)
    sys.exit(0 if ok else 1)


def _findings(options: RunOptions, params: Params) -> Iterator[Finding]:
    yield from machine_checks.python()
    yield from machine_checks.packages()
    yield from service_checks.prefect_server()
    yield from service_checks.ray(params.execution, options.workspace.resolve())
    yield from service_checks.engine(params.serve)
    yield from service_checks.dvc()
    yield from machine_checks.docker()
    yield from machine_checks.sandbox()
    yield from machine_checks.gpu()
    yield from machine_checks.memory()
    yield from machine_checks.descriptors()
    yield from machine_checks.disk(options.workspace.resolve())


def _print_lines(findings: Iterable[Finding]) -> None:
    for finding in findings:
        remedy = "" if finding.ok or not finding.remedy else f" [dim]({escape(finding.remedy)})[/]"
        console.print(
            f"{_MARKS[finding.ok]} {finding.what}: {escape(finding.detail)}{remedy}",
            highlight=False,
            soft_wrap=True,
        )
