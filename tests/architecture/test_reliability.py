"""Markers of faults and the table in docs/reliability.md agree."""

import pathlib

import pytest

from benchmarks.reliability import DOCUMENT, OUTCOMES, document, marked_tests, read_rows


def table() -> set[tuple[str, str, str]]:
    """File, fault and outcome of each row of the document."""
    found, file = set(), ""
    for line in DOCUMENT.read_text("utf-8").splitlines():
        if line.startswith("## "):
            file = line.removeprefix("## ")
        elif line.startswith("| ") and not line.startswith("| fault |"):
            fault, outcome, *_ = line.strip("| ").split(" | ")
            found.add((file, fault, outcome))
    return found


def test_every_fault_is_in_the_table():
    """Each marker has a row under its file, each row a marker; `make faults` writes them."""
    assert table() == {(row.file, row.fault, row.outcome) for row in marked_tests()}


def test_outcomes_are_defined():
    """The outcome of every marker is one of the table's."""
    assert {row.outcome for row in marked_tests()} <= OUTCOMES.keys()


RESULTS = """<testsuites><testsuite timestamp="2026-11-23T01:02:03">
<testcase classname="tests.faults.test_x" name="test_a[1]"><properties>
<property name="fault" value="F" /><property name="outcome" value="resumes" /></properties></testcase>
<testcase classname="tests.faults.test_x" name="test_a[2]"><properties>
<property name="fault" value="F" /><property name="outcome" value="resumes" /></properties>
{two}</testcase>
<testcase classname="tests.unit.test_y" name="test_b" />
</testsuite></testsuites>
"""


@pytest.mark.parametrize(
    ("two", "lines"),
    [
        ("", ["passed"]),
        ("<failure>assert</failure>", ["passed", "failed"]),
        ("<skipped>no mount</skipped>", ["passed", "skipped"]),
    ],
    ids=["passed", "failed", "skipped"],
)
def test_the_table_shows_each_result(tmp_path: pathlib.Path, two, lines):
    """Two passed cases of one fault are one row; a failed or skipped one has its own."""
    (tmp_path / "r.xml").write_text(RESULTS.format(two=two), "utf-8")
    text = document(list(read_rows(tmp_path / "r.xml")))
    found = [line for line in text.splitlines() if line.startswith("| F |")]
    assert found == [f"| F | resumes | `test_a` | {result} |" for result in lines]
    assert "test_b" not in text
    assert "Results of 2026-11-23." in text
