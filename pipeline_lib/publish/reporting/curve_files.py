"""Files of the test-time compute curves below ``reports/``: JSON, CSV and plots."""

import pathlib
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter

from pipeline_lib.errors import BadInputError
from pipeline_lib.publish.reporting.curve_plots import curve_rows, plot_curves
from pipeline_lib.publish.reporting.report import csv_text
from pipeline_lib.store import manifests
from pipeline_lib.store.files import read_checked, write_json, write_text
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.study.curves.result import CURVES_NAME, ComputeCurves

POLICIES = ("base", "trained")
REPORT_NAME = "compute_curves.json"
FIGURES_FOLDER = "compute"


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveFiles:
    """Paths of the written files."""

    report: pathlib.Path
    table: pathlib.Path
    figures: tuple[pathlib.Path, ...]


def read_curves(workspace: Workspace) -> list[ComputeCurves]:
    """The curves of a workspace, base before trained; empty if there are none."""
    found = []
    for policy in POLICIES:
        folder = workspace.compute_result(policy)
        if (folder / manifests.MANIFEST_NAME).is_file():
            manifests.check(folder, manifests.read_manifest(folder))
            remedy = "run compute-curves again"
            found.append(read_checked(folder / CURVES_NAME, ComputeCurves, remedy=remedy))
    return found


def write_curve_files(workspace: Workspace) -> CurveFiles:
    """Write JSON, CSV and plots of the curves of a workspace.

    Raises:
        BadInputError: there are no curves.
    """
    curves = read_curves(workspace)
    if not curves:
        raise BadInputError(
            f"{workspace.root}: no curves of test-time compute; run `reasonloop compute-curves`"
        )
    report = workspace.reports / REPORT_NAME
    folder = workspace.reports / FIGURES_FOLDER
    table = folder / "curves.csv"
    write_json(report, _json(curves))
    write_text(table, csv_text([row for one in curves for row in curve_rows(one)]))
    figures = {folder / f"{plot.name}.svg": plot.svg for one in curves for plot in plot_curves(one)}
    for path, svg in figures.items():
        write_text(path, svg)
    return CurveFiles(report=report, table=table, figures=tuple(figures))


def _json(curves: Sequence[ComputeCurves]) -> dict[str, object]:
    adapter = TypeAdapter(ComputeCurves)
    return {one.policy: adapter.dump_python(one, mode="json") for one in curves}
