"""`reasonloop frontier`: accuracy against cost of the arms of several evaluations."""

import pathlib
from typing import Annotated

from cyclopts import Parameter, validators

from flows.cli.options import DEFAULT_PARAMS, ParamsOptions
from flows.cli.tables import print_claims, print_table
from flows.run.terminal import say
from pipeline_lib.store.files import check_output


def frontier(
    *workspaces: Annotated[
        pathlib.Path,
        Parameter(
            help="Workspaces, or folders like reports/SYSTEM of one; default: the current folder.",
            validator=validators.Path(exists=True, file_okay=False),
        ),
    ],
    output: Annotated[
        pathlib.Path, Parameter(help="Folder for frontier.json, frontier.csv and report.html.")
    ] = pathlib.Path("reports/frontier"),
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Show accuracy against drawn tokens, total tokens and critical path for every arm of several systems.

    Compared are the problems that all systems evaluated, joined by kind, question and gold. An arm that lacks one
    of them, or whose training saw one, is left out and counted.

    **Examples:**

        reasonloop frontier
        reasonloop frontier /tmp/loop /tmp/threads --output /tmp/frontier
        reasonloop frontier /tmp/trial/reports/loop /tmp/trial/reports/pacore
    """
    check_output(output / "report.html")
    loaded = params.load()
    from pipeline_lib.study.frontier import make_frontier, read_evaluations, write_frontier  # noqa: PLC0415 - scipy is slow
    from pipeline_lib.study.pages.page import REPORT_NAME  # noqa: PLC0415

    evaluations = read_evaluations([path.resolve() for path in workspaces or (pathlib.Path(),)])
    found = make_frontier(evaluations, loaded.evaluate, seed=loaded.seed)
    write_frontier(output, found)
    for table in found.tables:
        print_table(table)
    print_claims(found.study)
    say(f"\nreport:     {output / REPORT_NAME}")
