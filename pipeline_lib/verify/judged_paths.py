"""Verdicts on sampled paths and their rows, and on texts. A path whose request failed is not judged."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pipeline_lib.records import Path, Problem, Row
from pipeline_lib.verdicts import Verdict
from pipeline_lib.verify.dispatch import Item, Verifier

KIND = "verdicts"


def judge_paths(
    paths: Sequence[Path], problems: Iterable[Problem], verifier: Verifier
) -> list[Verdict]:
    """One verdict per path, in order; a path whose request failed has no score."""
    golds = {problem.id: problem.gold for problem in problems}
    return verifier.judge(
        [
            Item(
                gold=golds[path.problem_id],
                text=path.text,
                failure=None if path.error is None else f"not sampled: {path.error}",
            )
            for path in paths
        ]
    )


TextVerdicts = Mapping[tuple[str, str], Verdict]
"""By id of a problem and text."""


def judge_texts(texts: Iterable[tuple[Problem, str]], verifier: Verifier) -> TextVerdicts:
    """The verdict on each distinct text of a problem, in one batch."""
    items = {(problem.id, text): Item(gold=problem.gold, text=text) for problem, text in texts}
    return dict(zip(items, verifier.judge([*items.values()]), strict=True))


def verdict_rows(paths: Sequence[Path], verdicts: Sequence[Verdict]) -> list[Row]:
    """Rows of the verdict table, keyed by (problem_id, index)."""
    return [
        {"problem_id": path.problem_id, "index": path.index, **verdict.row()}
        for path, verdict in zip(paths, verdicts, strict=True)
    ]


def verdict_counts(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """Number of verdicts per status, for a manifest."""
    return {status.value: count for status, count in Counter(v.status for v in verdicts).items()}
