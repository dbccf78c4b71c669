r"""Rows with a short final answer as problems: GSM8K, MATH, AIME, HMMT.

Golds are kept as published; `splits` removes problems whose gold the verifier cannot parse.
"""

from pipeline_lib.kinds.math import MathGold, last_boxed, without_thousands
from pipeline_lib.problems.data_set import BY_SPLIT, DataSet, RawRow
from pipeline_lib.records import Problem

_GSM8K_MARK = "#### "


def gsm8k_problem(row: RawRow, *, id_prefix: str, source: str) -> Problem:
    """A row of GSM8K: ``answer`` is a worked solution whose last line is ``#### 1,080``."""
    solution = row.text("answer")
    _, mark, final = solution.rpartition(_GSM8K_MARK)
    answer = without_thousands(final.strip(" ,\n"))
    if not mark or not answer:
        raise row.error("answer", f"no answer after {_GSM8K_MARK!r}")
    return Problem(
        id=f"{id_prefix}-{row.index}",
        question=row.text("question"),
        gold=MathGold(answer=answer),
        source=source,
        solution=solution,
    )


def count_calculations(problem: Problem) -> int:
    """Calculations that a solution of GSM8K marks, as in ``<<48/2=24>>``."""
    return (problem.solution or "").count("<<")


def contest_problem(row: RawRow, *, id_prefix: str, source: str) -> Problem:
    r"""A row of MATH, AIME or HMMT.

    The gold is ``answer``, or else the content of the last ``\boxed`` of ``solution``.
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


GSM8K = DataSet(
    parse=gsm8k_problem,
    splits=("train", "test"),
    patterns=(*BY_SPLIT, "main/{split}-*.parquet"),
    hub_config="main",
)
MATH = DataSet(parse=contest_problem, splits=("train", "test"))
YEARLY_CONTEST = DataSet(parse=contest_problem, splits=("test",), many_editions=True)
"""AIME and HMMT: one folder a year."""
