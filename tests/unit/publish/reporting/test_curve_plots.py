"""Figures, table and rows of test-time compute."""

import csv
import io
import json
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import Strategy
from pipeline_lib.publish.reporting.curve_files import read_curves, write_curve_files
from pipeline_lib.publish.reporting.curve_plots import curve_rows, curve_table, plot_curves
from pipeline_lib.publish.reporting.report import write_report
from pipeline_lib.store import manifests
from pipeline_lib.store.files import write_checked
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.study.curves.result import CURVES_NAME
from tests.unit.publish.reporting.demo_report import demo_input
from tests.unit.publish.reporting.page import Page
from tests.unit.study.curves.test_estimates import LETTERS, PARAMS, curves_of, synthetic_input


@pytest.fixture(scope="module")
def curves():
    return curves_of(PARAMS, synthetic_input(PARAMS, LETTERS, LETTERS))


def test_every_strategy_is_drawn_once_and_the_oracle_is_marked(curves):
    """Both figures name all strategies; the upper bound says that it is one."""
    for plot in plot_curves(curves):
        texts = [node.text for node in ET.fromstring(plot.svg).iter() if node.text]
        for strategy in Strategy:
            name = strategy.value
            shown = f"{name} (upper bound)" if strategy is Strategy.ORACLE else name
            assert texts.count(shown) == 1
    assert [plot.name for plot in plot_curves(curves)] == [
        "compute_tokens_trained",
        "compute_critical_path_trained",
    ]


def test_the_best_point_in_words_is_label_free(curves):
    """The oracle scores highest and is not named."""
    for plot in plot_curves(curves):
        assert "Best label-free point" in plot.alt
        assert "oracle" not in plot.alt


def test_the_table_has_all_points(curves):
    """A row each, in the order of the strategies; every score has its interval."""
    table = curve_table(curves)
    assert len(table.rows) == len(curves.points)
    assert [row[0] for row in table.rows][:4] == ["single"] + ["oracle (upper bound)"] * 3
    assert all("to" in row[2] for row in table.rows)


def test_rows_hold_the_figures(curves):
    """As they are, for CSV."""
    rows = curve_rows(curves)
    assert rows[0]["strict"] == curves.points[0].strict.value
    assert {row["upper_bound"] for row in rows if row["strategy"] != "oracle"} == {False}


def test_the_report_has_a_section_where_there_are_curves(curves, tmp_path):
    """Figures, table and a link to them; without curves neither section nor link."""
    source = demo_input(12, resamples=50)
    without = Page(write_report(source, tmp_path).report.read_text("utf-8"))
    shown = write_report(replace(source, compute=[curves]), tmp_path).report.read_text("utf-8")
    page = Page(shown)
    assert len(page.all("img")) == len(without.all("img")) + 2
    assert [a["id"] for a in page.all("section") if a not in without.all("section")] == [
        "test-time-compute-of-trained"
    ]
    assert {"href": "#test-time-compute-of-trained"} in page.all("a")
    assert {"href": "#test-time-compute-of-trained"} not in without.all("a")
    assert "the upper bound" in page.text
    assert "Test-time compute, trained policy" in page.text


def test_files_of_a_workspace(curves, tmp_path):
    """JSON by policy, CSV of all points, two figures; a workspace without curves is bad input."""
    workspace = Workspace(tmp_path)
    assert read_curves(workspace) == []
    with pytest.raises(BadInputError, match="compute-curves"):
        write_curve_files(workspace)
    folder = workspace.compute_result("trained")
    write_checked(folder / CURVES_NAME, curves)
    manifests.seal(folder, kind="compute-curves", key="k")
    files = write_curve_files(workspace)
    assert list(json.loads(files.report.read_text("utf-8"))) == ["trained"]
    rows = list(csv.DictReader(io.StringIO(files.table.read_text("utf-8"))))
    assert len(rows) == len(curves.points)
    assert all(figure.is_file() for figure in files.figures)
    assert len(files.figures) == 2
