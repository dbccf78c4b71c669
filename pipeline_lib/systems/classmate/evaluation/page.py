"""report.html of an evaluation: one file without scripts or requests. Model output is escaped."""

import pathlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice

from pipeline_lib.records import Interval, Row
from pipeline_lib.store.files import write_text
from pipeline_lib.study.pages.environment import page_environment
from pipeline_lib.study.pages.tables import Table
from pipeline_lib.study.pages.wording import EMPTY, difference, level, p_value, percent, score
from pipeline_lib.study.statistics.paired import PairedDifference
from pipeline_lib.systems.classmate.evaluation.figures import WHICH, PolicyComparison, PolicyFigures

_EXAMPLES = 24


def write_page(
    path: pathlib.Path,
    sentences: Sequence[str],
    tables: Sequence[Table],
    rows: Sequence[Row],
    questions: Mapping[str, str],
) -> None:
    """Write the report: sentences, tables, and continuations of some problems.

    Args:
        path: the file.
        sentences: the headline first.
        tables: as of :func:`make_tables`.
        rows: continuations.
        questions: by problem id.
    """
    template = page_environment(pathlib.Path(__file__).parent).get_template("page.html.j2")
    problems = [
        {"id": name, "question": question, "rows": _rows_of(name, rows)}
        for name, question in islice(questions.items(), _EXAMPLES)
    ]
    write_text(
        path,
        template.render(
            headline=sentences[0], sentences=sentences[1:], tables=tables, problems=problems
        ),
    )


def _rows_of(problem_id: str, rows: Sequence[Row]) -> list[Row]:
    own = (row for row in rows if row["problem_id"] == problem_id)
    return sorted(own, key=lambda row: (row["prefix"], row["peer"]))


def make_tables(
    policies: Sequence[PolicyFigures],
    compared: Sequence[PolicyComparison],
    held_out: Collection[str],
    empty: Mapping[str, Interval | None],
    failed: Mapping[str, float],
) -> list[Table]:
    """Accuracy, success of peers, differences, spread among right prefixes."""
    return [
        accuracy_table(policies),
        success_table(policies, held_out, empty, failed),
        paired_table(compared),
        _spread_table(policies),
        _cut_table(policies),
    ]


def accuracy_table(policies: Sequence[PolicyFigures]) -> Table:
    """pass@k of each policy."""
    first = policies[0].summary
    return Table(
        caption=f"Strict pass@k with {level(first.single)} intervals over {first.num_problems} problems",
        columns=(
            *("policy", *(f"pass@{k}" for k in first.ks)),
            *("tokens per path", "paths without a score", "problems left out"),
        ),
        rows=tuple(
            (
                one.name,
                *(score(one.summary.strict[k]) for k in first.ks),
                f"{one.summary.mean_completion_tokens:.1f}",
                str(one.summary.num_unscored),
                str(one.summary.num_left_out),
            )
            for one in policies
        ),
    )


def success_table(
    policies: Sequence[PolicyFigures],
    held_out: Collection[str],
    empty: Mapping[str, Interval | None],
    failed: Mapping[str, float],
) -> Table:
    """Success of each peer by policy and share, with the part of its continuations without a score."""
    return Table(
        caption="Success of peers that continue prefixes: mean over the problems with such paths",
        columns=(
            *("peer", "policy", "share", *(f"{which} paths" for which in WHICH)),
            *("prefix of another problem", "empty prefix", "without a score"),
        ),
        rows=tuple(
            (
                f"{peer} (held out)" if peer in held_out else peer,
                one.name,
                share,
                *(_score(found[which]) for which in WHICH),
                _score(one.shuffled[peer][share]),
                _score(empty[peer]),
                percent(failed[peer]),
            )
            for peer in empty
            for one in policies
            for share, found in one.success[peer].items()
        ),
    )


def paired_table(compared: Sequence[PolicyComparison]) -> Table:
    """Differences between policies on the same problems."""
    return Table(
        caption="Differences in points, problem by problem; over right or wrong paths on the problems where both policies have some",
        columns=("policies", "measure", "difference", "p", "finding"),
        rows=tuple(
            (f"{one.policy} minus {one.reference}", name, *_finding(found))
            for one in compared
            for name, found in _measures(one)
        ),
    )


def _measures(one: PolicyComparison) -> Iterator[tuple[str, PairedDifference | None]]:
    yield from ((f"pass@{k}", found) for k, found in one.pass_at.items())
    for peer, shares in one.success.items():
        for share, sets in shares.items():
            for which, found in sets.items():
                yield f"{peer}, share {share}, {which} paths", found


def _spread_table(policies: Sequence[PolicyFigures]) -> Table:
    return Table(
        caption="True standard deviation of success among the distinct right prefixes of a problem",
        columns=("peer", "policy", "share", "deviation", "mean success", "problems"),
        rows=tuple(
            (
                *(peer, one.name, share),
                *(
                    (EMPTY, EMPTY, "0")
                    if found is None
                    else (f"{found.sd:.2f}", percent(found.mean), str(found.problems))
                ),
            )
            for one in policies
            for peer, shares in one.spread.items()
            for share, found in shares.items()
        ),
    )


def _cut_table(policies: Sequence[PolicyFigures]) -> Table:
    return Table(
        caption="Prefixes by share of the steps",
        columns=("policy", "share", "kept steps", "cut back, since they gave the answer away"),
        rows=tuple(
            (one.name, share, f"{kept:.2f}", percent(one.leaks[share]))
            for one in policies
            for share, kept in one.kept_steps.items()
        ),
    )


def _score(interval: Interval | None) -> str:
    return EMPTY if interval is None else score(interval)


def _finding(found: PairedDifference | None) -> tuple[str, str, str]:
    if found is None:
        return EMPTY, EMPTY, EMPTY
    return difference(found.interval), p_value(found.p_value), found.finding.value
