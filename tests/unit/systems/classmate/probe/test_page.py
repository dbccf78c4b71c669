"""Tables and page of a probe."""

from pipeline_lib.systems.classmate.probe.figures import mean_curves, step_lifts
from pipeline_lib.systems.classmate.probe.page import (
    curve_tables,
    largest_and_smallest,
    lift_table,
    write_page,
)
from tests.unit.systems.classmate.probe.test_figures import EVALUATE, probed


def found():
    first = probed("a<b>", [False] * 4, [True] * 4, [True] * 4, leak=[False, False, True])
    return [first, probed("b", [True] * 4, [False] * 4, shuffled=([False], [False]))]


def test_the_table_of_a_curve():
    """Chains of 2 and 1 steps, by kept steps 0, 1, 1 and 1, 0. At 50 % the second keeps none: (1 + 1) / 2; else one
    of two succeeds. The answer of one of two is given away at the end."""
    chains = found()
    [table] = curve_tables(chains, mean_curves(chains, EVALUATE, seed=7))
    cells = [[row[0], row[1], row[2].split(" (")[0], row[5]] for row in table.rows]
    assert cells == [
        ["0\N{NO-BREAK SPACE}%", "2", "50.0\N{NO-BREAK SPACE}%", "0.0\N{NO-BREAK SPACE}%"],
        ["50\N{NO-BREAK SPACE}%", "2", "100.0\N{NO-BREAK SPACE}%", "0.0\N{NO-BREAK SPACE}%"],
        ["100\N{NO-BREAK SPACE}%", "2", "50.0\N{NO-BREAK SPACE}%", "50.0\N{NO-BREAK SPACE}%"],
    ]


def test_the_table_of_steps():
    """The largest lift first; a step that gives the answer away is marked."""
    rows = lift_table(step_lifts(found())).rows
    assert [(row[0], row[1], row[4]) for row in rows] == [
        ("a<b>", "1 of 2", "+100.0"),
        ("a<b>", "2 of 2", "0.0 *"),
        ("b", "1 of 1", "\N{MINUS SIGN}100.0"),
    ]


def test_both_ends_of_a_long_list():
    """Of 21 steps all but the middle one; of 15 each step once."""
    assert largest_and_smallest(range(21)) == [*range(10), *range(11, 21)]
    assert largest_and_smallest(range(15)) == list(range(15))


def test_the_page_escapes_text_and_requests_nothing(tmp_path):
    """Curve, steps and chains in one file; an id with markup is text."""
    chains = found()
    path = tmp_path / "probe.html"
    write_page(path, chains, mean_curves(chains, EVALUATE, seed=7))
    page = path.read_text("utf-8")
    assert "a&lt;b&gt;, step 1 of 2" in page
    assert "a<b>" not in page
    assert "default-src 'none'" in page
    assert "<script" not in page
    assert page.count("gives the answer away") == 2
    assert "data:image/svg+xml" in page
