"""Tables as text cells."""

import pytest

from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.publish.reporting import tables
from pipeline_lib.publish.reporting.run_compute import StageCosts, TokenCount
from pipeline_lib.study.pages.page import study_tables
from pipeline_lib.study.pages.tables import Table, mapping_table, markdown
from pipeline_lib.study.policies import score_policy
from pipeline_lib.study.study import Arm
from tests.unit.publish.reporting.demo_report import demo_input
from tests.unit.study.judged_groups import judged_group

PARAMS = EvaluateParams(num_paths=4, ks=(1, 2), resamples=100)


@pytest.fixture(scope="module")
def source():
    return demo_input(30, resamples=100)


def test_every_row_is_as_wide_as_its_header(source):
    """No table of the report has a ragged row."""
    made = [
        *study_tables(source.study),
        tables.flip_table(source.flips, limit=3),
        tables.status_table(source.counts),
        tables.run_compute_table(source.spent),
        tables.cost_table(
            StageCosts(seconds={"train": 1.0}, total_seconds=1.0, tokens={}, peaks_mib={})
        ),
        mapping_table("Lineage", {"model": "abc", "rows": 3}),
    ]
    assert all(len(row) == len(table.columns) for table in made for row in table.rows)


def test_flips_are_cut_but_counted(source):
    """The caption has all flips, the rows at most the limit each way."""
    table = tables.flip_table(source.flips, limit=1)
    assert f"{len(source.flips.gained)} gained" in table.caption
    assert len(source.flips.gained) > 1
    assert sum(row[1] == "gained" for row in table.rows) == 1


def test_our_failures_have_a_row_of_their_own():
    """Of 4 base paths 2 were not judged, of the policy's 1."""
    counts = {
        name: score_policy(Arm(base=name), [judged_group("a", letters)], PARAMS).counts
        for name, letters in (("base", "cwxx"), ("policy", "ccwe"))
    }
    statuses = {row[0]: row[1:] for row in tables.status_table(counts).rows}
    assert statuses["of these, not scored"] == ("2", "1")
    assert statuses["correct"] == ("1", "2")


def test_costs_have_totals_and_stages_without_tokens_a_dash():
    """2 s and 3 s of which one second overlaps; verifying has no tokens, which is not zero tokens."""
    table = tables.cost_table(
        StageCosts(
            seconds={"sample": 2.0, "verify": 3.0},
            total_seconds=4.0,
            tokens={"sample": TokenCount(prompt=5, completion=7)},
            peaks_mib={"sample": 900, "verify": 100},
        )
    )
    cells = [[cell.replace("\N{NO-BREAK SPACE}", " ") for cell in row] for row in table.rows]
    assert cells == [
        ["sample", "2.0 s", "5", "7", "900 MiB"],
        ["verify", "3.0 s", tables.EMPTY, tables.EMPTY, "100 MiB"],
        ["total", "4.0 s", "5", "7", "900 MiB"],
    ]


def test_markdown_keeps_bars_inside_their_cell():
    """A bar in a problem id must not open a new column."""
    table = Table(caption="Flips", columns=("problem", "base"), rows=(("a|b", "1"),))
    text = markdown("T", ["S."], [table])
    assert text == "# T\n\nS.\n\n**Flips**\n\n| problem | base |\n| --- | --- |\n| a\\|b | 1 |\n"
