"""Claims and tables of a study on a console."""

from __future__ import annotations

import pathlib
import pkgutil
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.table import Table

from flows.run.terminal import console, say

if TYPE_CHECKING:  # every command imports this module, and matplotlib and scipy are slow
    from pipeline_lib.study.pages.tables import Table as ReportTable
    from pipeline_lib.study.study import Study

_FURTHER = {
    "imported": "pipeline_lib.systems.loop.imports.comparison:agreement_tables",
    "loop": "pipeline_lib.systems.loop.compute:compute_tables",
    "prr": "pipeline_lib.systems.prr.study:figure_tables",
}
"""Functions that make further tables from the study of a system."""
_FIRST = {"pacore": "pipeline_lib.systems.pacore.study:gate_tables"}
"""Functions that make the tables that come first."""


def print_claims(study: Study) -> None:
    """Print the claims of a study, the first in bold."""
    title, *sentences = study.claims
    console.print(f"\n{title}", style="bold", markup=False)
    for sentence in sentences:
        say(sentence)


def print_evaluation(folder: pathlib.Path, *, model: str | None = None) -> None:
    """Print the tables of the study in a folder, its claims, and the paths of its files.

    Args:
        folder: of metrics.json.
        model: show the arms of this model alone.
    """
    from pipeline_lib.study.pages.page import REPORT_NAME, study_tables  # noqa: PLC0415 - see above
    from pipeline_lib.study.study import METRICS_NAME, read_study  # noqa: PLC0415 - see above

    study = read_study(folder / METRICS_NAME)
    if model is not None:
        own = {one.name for one in study.arms if one.settings["model"] == model}
        study = replace(
            study,
            points=tuple(one for one in study.points if one.arm in own),
            differences=tuple(one for one in study.differences if one.arm in own),
        )
    further = (
        pkgutil.resolve_name(_FURTHER[study.system])(study) if study.system in _FURTHER else ()
    )
    first = pkgutil.resolve_name(_FIRST[study.system])(study) if study.system in _FIRST else ()
    for table in (*first, *study_tables(study), *further):
        print_table(table)
    print_claims(study)
    for name in (METRICS_NAME, REPORT_NAME, "rollouts.jsonl", "submission.json"):
        if (folder / name).exists():
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
