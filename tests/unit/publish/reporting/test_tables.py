"""Tables as text cells."""

import pytest

from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.publish.reporting import tables
from pipeline_lib.publish.reporting.metrics_file import StageCosts, TokenCount
from pipeline_lib.study.pages.tables import Table, mapping_table, markdown
from pipeline_lib.study.result import evaluate_policies
from tests.unit.publish.reporting.demo_report import demo_input
from tests.unit.study.judged_groups import judged_group


@pytest.fixture(scope="module")
def source():
    return demo_input(30, resamples=100)


@pytest.fixture(scope="module")
def result(source):
    return source.result


def test_every_row_is_as_wide_as_its_header(source, result):
    """No table of the report has a ragged row."""
    made = [
        tables.score_table(result.summaries),
        tables.paired_table(result.comparison),
        tables.split_table(result.comparison),
        tables.flip_table(result.comparison, limit=3),
        tables.status_table(result.summaries),
        tables.paired_table(result.over_control, against="control"),
        tables.run_compute_table(source.spent),
        tables.cost_table(
            StageCosts(seconds={"train": 1.0}, total_seconds=1.0, tokens={}, peaks_mib={})
        ),
        mapping_table("Lineage", {"model": "abc", "rows": 3}),
    ]
    assert all(len(row) == len(table.columns) for table in made for row in table.rows)


def test_scores_name_every_k_strict_before_lenient(result):
    """The headline score comes first."""
    names = [row[0] for row in tables.score_table(result.summaries).rows]
    assert names[:6] == [f"pass@{k}{kind}" for kind in ("", ", lenient") for k in (1, 4, 8)]


def test_the_control_has_a_column_between_base_and_trained(result):
    """And the differences from it come before those from the base."""
    assert tables.score_table(result.summaries).columns == ("score", "base", "control", "trained")
    captions = [table.caption for table in tables.paired_tables(result)]
    assert [caption.split(",")[0] for caption in captions] == [
        "Trained minus control",
        "Trained minus base",
    ]


def test_flips_are_cut_but_counted(result):
    """The caption has all flips, the rows at most the limit each way."""
    table = tables.flip_table(result.comparison, limit=1)
    assert f"{len(result.comparison.gained)} gained" in table.caption
    assert len(result.comparison.gained) > 1
    assert sum(row[1] == "gained" for row in table.rows) == 1


def test_our_failures_have_a_row_and_no_part_in_a_score():
    """Of 4 base paths 1 is right, 2 were not judged: 1 of 2, not 1 of 4; trained likewise 2 of 3."""
    params = EvaluateParams(num_paths=4, ks=(1, 2), resamples=100)
    groups = [[judged_group("a", letters)] for letters in ("cwxx", "ccwe")]
    result = evaluate_policies(*groups, params, seed=7)
    statuses = {row[0]: row[1:] for row in tables.status_table(result.summaries).rows}
    assert statuses["of these, not scored"] == ("2", "1")
    scores = {row[0]: row[1:] for row in tables.score_table(result.summaries).rows}
    assert [cell.split()[0] for cell in scores["pass@1"][:2]] == ["50.0", "66.7"]


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
