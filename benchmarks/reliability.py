"""docs/reliability.md: a table of faults, made from the results of the tests that cause them.

A test of a fault, or one of its cases, is marked ``@pytest.mark.fault(FAULT, OUTCOME)``; OUTCOME is a
name of `OUTCOMES`. `make faults` runs these tests and writes the table. Of a test that is in several
files of results, the last file counts; one that is in none has the result "not run".

    python -m pytest -m fault --junitxml=build/faults.xml
    python -m benchmarks.reliability build/faults.xml
"""

import ast
import pathlib
import sys
import textwrap
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from xml.etree import ElementTree as ET

from benchmarks.lib.command_line import make_parser
from benchmarks.lib.repository import REPOSITORY

DOCUMENT = REPOSITORY / "docs" / "reliability.md"
OUTCOMES: Mapping[str, str] = {
    "continues": "The run goes on by itself and ends with exit code 0 and the digests of an unbroken run.",
    "resumes": "The run ends. The same command goes on from there: finished shards and steps are not "
    "repeated, and the digests equal an unbroken run's.",
    "one line": "The command ends with one line that names the cause and a remedy, and exit code 1 or 2. "
    "The same command, once the cause is gone, resumes as above.",
    "refused": "One line and exit code 1 or 2 before any work; nothing that exists is changed.",
    "cleaned up": "No process, temporary file or `Running` flow run is left.",
}
"""Outcomes that the tests of faults assert, by their names in the marker."""

_HEAD = """\
# Reliability

Faults that tests cause with real processes: the command, Prefect servers, Ray, file systems. `make faults`
runs the tests and writes this file from their results. Results of {dates}.

{outcomes}

Tests of `tests/faults` and `tests/flows` run the whole command; tests of `tests/unit` the part concerned:
an engine, a training, a table.
"""
_COLUMNS = "\n## {file}\n\n| fault | outcome | test | result |\n|---|---|---|---|\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One case of a test, with its fault."""

    file: str
    test: str
    fault: str
    outcome: str
    result: str
    """passed, skipped, failed, not run"""
    date: str = ""
    """Of the result, as YYYY-MM-DD."""


def main() -> None:
    """Write the document; exit code 1 if a test has failed."""
    parser = make_parser(__doc__)
    parser.add_argument("results", nargs="+", type=pathlib.Path, help="files of pytest --junitxml")
    options = parser.parse_args()
    marked = {(row.file, row.fault): row for row in marked_tests()}
    # Results of tests that have been removed or renamed since are left out.
    found = [row for path in options.results for row in read_rows(path)]
    rows = {(r.file, r.test, r.fault): r for r in found if (r.file, r.fault) in marked}
    run = {(row.file, row.fault) for row in rows.values()}
    done = {(row.file, row.fault) for row in rows.values() if row.result != "skipped"}
    # A case that does not apply, as killing the worker that is a thread, says nothing beside the others.
    shown = [r for r in rows.values() if r.result != "skipped" or (r.file, r.fault) not in done]
    missing = [row for case, row in marked.items() if case not in run]
    DOCUMENT.write_text(document([*shown, *missing]), encoding="utf-8")
    failed = [row for row in rows.values() if row.result == "failed"]
    for row in failed:
        print(f"failed: {row.file}::{row.test}")
    print(f"{len(rows)} results and {len(missing)} tests without one in {DOCUMENT}")
    sys.exit(bool(failed))


def marked_tests() -> Iterator[Row]:
    """All tests with a fault, as their sources mark them."""
    for path in sorted((REPOSITORY / "tests").rglob("test_*.py")):
        if "mark.fault" in (source := path.read_text("utf-8")):
            yield from _marked(source, file=path.relative_to(REPOSITORY).as_posix())


def _marked(source: str, *, file: str) -> Iterator[Row]:
    tests = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    for test in tests:
        nodes = (node for decorator in test.decorator_list for node in ast.walk(decorator))
        for call in (node for node in nodes if isinstance(node, ast.Call)):
            if ast.unparse(call.func) == "pytest.mark.fault":
                fault, outcome = map(ast.literal_eval, call.args)
                yield Row(file=file, test=test.name, fault=fault, outcome=outcome, result="not run")


def read_rows(path: pathlib.Path) -> Iterator[Row]:
    """The tests with a fault in a file of pytest's results; others are left out."""
    for suite in ET.parse(path).getroot().iter("testsuite"):  # noqa: S314 - see the import
        for case in suite.iter("testcase"):
            found = {p.get("name", ""): p.get("value", "") for p in case.iter("property")}
            if "fault" in found:
                yield Row(
                    file=case.get("classname", "").replace(".", "/") + ".py",
                    test=case.get("name", ""),
                    fault=found["fault"],
                    outcome=found["outcome"],
                    result=_result(case),
                    date=suite.get("timestamp", "")[:10],
                )


def _result(case: ET.Element) -> str:
    tags = {child.tag for child in case}
    if tags & {"failure", "error"}:
        return "failed"
    return "skipped" if "skipped" in tags else "passed"


def document(rows: Collection[Row]) -> str:
    """The whole document as Markdown; tests of tests/faults come first."""
    dates = sorted({row.date for row in rows if row.date})
    found = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    outcomes = "\n".join(
        textwrap.fill(f"- **{name}**: {meaning}", 110, subsequent_indent="  ")
        for name, meaning in OUTCOMES.items()
    )
    text = _HEAD.format(dates=found, outcomes=outcomes)
    ordered = sorted(rows, key=lambda row: (not row.file.startswith("tests/faults/"), row.file))
    for file, of_file in groupby(ordered, key=lambda row: row.file):
        lines = dict.fromkeys(map(_line, of_file))  # equal cases of a test are one line
        text += _COLUMNS.format(file=file) + "".join(lines)
    return text


def _line(row: Row) -> str:
    test = row.test.partition("[")[0]
    return f"| {row.fault} | {row.outcome} | `{test}` | {row.result} |\n"


if __name__ == "__main__":
    main()
