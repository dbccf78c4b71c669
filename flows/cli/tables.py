"""Claims and tables of a study on a console."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.table import Table

from flows.run.terminal import console, say

if TYPE_CHECKING:  # every command imports this module, and matplotlib and scipy are slow
    from pipeline_lib.study.pages.tables import Table as ReportTable
    from pipeline_lib.study.study import Study


def print_claims(study: Study) -> None:
    """Print the claims of a study, the first in bold."""
    title, *sentences = study.claims
    console.print(f"\n{title}", style="bold", markup=False)
    for sentence in sentences:
        say(sentence)


def print_evaluation(folder: pathlib.Path) -> None:
    """Print the study that was written into a folder."""
    from pipeline_lib.study.study import METRICS_NAME, read_study  # noqa: PLC0415 - see above

    print_study(read_study(folder / METRICS_NAME), folder)


def print_study(study: Study, folder: pathlib.Path) -> None:
    """Print the tables of a study, its claims, and the paths of its files in ``folder``."""
    from pipeline_lib.study.pages.page import REPORT_NAME, study_tables  # noqa: PLC0415 - see above
    from pipeline_lib.study.study import METRICS_NAME  # noqa: PLC0415 - see above

    for table in study_tables(study):
        print_table(table)
    print_claims(study)
    for name in (METRICS_NAME, REPORT_NAME):
        say(str(folder / name))


def print_table(table: ReportTable) -> None:
    """Print one of the report's tables."""
    shown = Table(*table.columns, title=table.caption, title_justify="left", box=None)
    for row in table.rows:
        shown.add_row(*row)
    console.print(shown, markup=False)


def print_counts(counts: Mapping[str, float]) -> None:
    """Print counts with their names, as of a manifest."""
    shown = Table("", "", show_header=False, box=None, pad_edge=False)
    for name, count in counts.items():
        shown.add_row(name.replace("_", " "), f"{count:.12g}")
    console.print(shown)
