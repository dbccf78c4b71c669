r"""Rows with a short final answer as problems: GSM8K, MATH, AIME, HMMT.

The gold is kept as its publisher wrote it; whether a verifier can read it is asked when the splits
are made.
"""

import re

from pipeline_lib.problems.raw_rows import RawRow
from pipeline_lib.records import MathGold, Problem

_GSM8K_MARK = "#### "
_BRACES = re.compile(r"\\[{}]|[{}]")


def gsm8k_problem(row: RawRow, *, id_prefix: str, source: str) -> Problem:
    """A row of GSM8K: ``answer`` is a worked solution whose last line is ``#### 1,080``."""
    solution = row.text("answer")
    _, mark, final = solution.rpartition(_GSM8K_MARK)
    answer = final.strip().replace(",", "")
    if not mark or not answer:
        raise row.error("answer", f"no answer after {_GSM8K_MARK!r}")
    return Problem(
        id=f"{id_prefix}-{row.index}",
        question=row.text("question"),
        gold=MathGold(answer=answer),
        source=source,
        solution=solution,
    )


def contest_problem(row: RawRow, *, id_prefix: str, source: str) -> Problem:
    r"""A row of MATH, AIME or HMMT.

    The gold is ``answer``, or else what the last ``\boxed`` of ``solution`` holds.
    """
    solution = row.text("solution") if row.has("solution") else None
    return Problem(
        id=row.text("unique_id") if row.has("unique_id") else f"{id_prefix}-{row.index}",
        question=row.text("problem", "question"),
        gold=MathGold(answer=_contest_answer(row, solution)),
        source=source,
        solution=solution,
    )


def _contest_answer(row: RawRow, solution: str | None) -> str:
    if row.has("answer") or solution is None:
        answer: str | None = row.text("answer").strip()
    else:
        answer = last_boxed(solution)
    if not answer:
        raise row.error("answer or solution", "no final answer")
    return answer


def last_boxed(solution: str) -> str | None:
    r"""Content of the last ``\boxed{...}`` (or ``\fbox{...}``) with balanced braces, else None."""
    openings = [match.end() for match in re.finditer(r"\\(?:boxed|fbox)\s*\{", solution)]
    for start in reversed(openings):
        end = _closing_brace(solution, start)
        if end is not None:
            return solution[start:end].strip()
    return None


def _closing_brace(text: str, start: int) -> int | None:
    depth = 1
    for brace in _BRACES.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0:
            return brace.start()
    return None
