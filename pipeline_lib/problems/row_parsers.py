r"""Rows as problems: of a short final answer (GSM8K, MATH, AIME, HMMT) or of a Python function (HumanEval, MBPP).

Golds are kept as published; `splits` removes problems whose gold the verifier cannot parse. Tests are
text here: parsed, never run.
"""

import ast
import builtins
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pydantic import StrictInt, TypeAdapter

from pipeline_lib.kinds.code import CodeGold, given_beside
from pipeline_lib.kinds.math import MathGold, last_boxed, without_thousands
from pipeline_lib.problems.data_set import BY_SPLIT, DataSet, RawRow
from pipeline_lib.records import Problem

_GSM8K_MARK = "#### "
_WHOLE: TypeAdapter[int] = TypeAdapter(StrictInt)
_TEXTS: TypeAdapter[list[str]] = TypeAdapter(list[str])


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


def contest_problem(row: RawRow, *, id_prefix: str, source: str) -> Problem:
    r"""A row of MATH, AIME or HMMT.

    The gold is ``answer``, or else the content of the last ``\boxed`` of ``solution``.
    """
    solution = row.text("solution") if row.has("solution") else None
    if row.has("answer") or solution is None:
        answer: str | None = row.text("answer").strip()
    else:
        answer = last_boxed(solution)
    if not answer:
        raise row.error("answer or solution", "no final answer")
    return Problem(
        id=row.text("unique_id") if row.has("unique_id") else f"{id_prefix}-{row.index}",
        question=row.text("problem", "question"),
        gold=MathGold(answer=answer),
        source=source,
        solution=solution,
    )


GSM8K = DataSet(
    parse=gsm8k_problem,
    splits=("train", "test"),
    patterns=(*BY_SPLIT, "main/{split}-*.parquet"),
    hub_id="openai/gsm8k",
    hub_config="main",
)
MATH = DataSet(parse=contest_problem, splits=("train", "test"))
MATH_500 = replace(MATH, hub_id="HuggingFaceH4/MATH-500")
YEARLY_CONTEST = DataSet(parse=contest_problem, splits=("test",), many_editions=True)
"""AIME and HMMT: one folder a year."""
YEARS: Mapping[str, DataSet] = {
    name: replace(YEARLY_CONTEST, hub_id=hub_id)
    for name, hub_id in {
        "aime24": "HuggingFaceH4/aime_2024",
        "aime25": "MathArena/aime_2025",
        "aime26": "MathArena/aime_2026",
        "hmmt25": "MathArena/hmmt_feb_2025",
    }.items()
}


MBPP_TASKS: Mapping[str, range] = {
    "prompt": range(1, 11),
    "test": range(11, 511),
    "validation": range(511, 601),
    "train": range(601, 975),
}
"""The official splits of MBPP, by ``task_id``."""


def humaneval_problem(row: RawRow, *, id_prefix: str, source: str) -> Problem:
    """A row of HumanEval: the prompt is a function's head, ``test`` defines ``check(candidate)``."""
    del id_prefix  # rows have ids
    prompt = row.text("prompt")
    name = row.text("entry_point")
    try:
        given = given_beside(prompt, name)
    except SyntaxError as error:
        raise row.error("prompt", f"not the head of a Python function ({error.msg})") from error
    return Problem(
        id=row.text("task_id"),
        question=prompt,
        gold=CodeGold(entry_point=name, tests=given + row.text("test")),
        source=source,
        solution=prompt + row.text("canonical_solution"),
    )


def mbpp_problem(row: RawRow, *, id_prefix: str, source: str) -> Problem:
    """A row of MBPP, or of MBPP+ on the hub. The question includes the asserts, which alone name the function."""
    del id_prefix  # rows have ids, the same in every file of a split
    asserts = [line.strip() for line in row.read(_TEXTS, "test_list")]
    try:
        name = entry_point(asserts)
    except SyntaxError as error:
        raise row.error("test_list", f"not Python ({error.msg})") from error
    if name is None:
        raise row.error("test_list", "no function is called in every assert")
    setup = _unix_lines(row.text("test_setup_code")) if row.has("test_setup_code") else ""
    shown = "\n".join(asserts)
    tests = row.text("test") if row.has("test") else f"{setup}\n{shown}\n".lstrip("\n")
    return Problem(
        id=f"mbpp-{row.read(_WHOLE, 'task_id')}",
        question=f"{row.text('text', 'prompt').strip()}\nYour code should pass these tests:\n\n{shown}",
        gold=CodeGold(entry_point=name, tests=tests),
        source=source,
        solution=_unix_lines(row.text("code")),
    )


def _unix_lines(code: str) -> str:
    return code.replace("\r\n", "\n")


def entry_point(asserts: Sequence[str]) -> str | None:
    """The function under test: the first name that every assert calls.

    Outer calls come before those in their arguments. A builtin is taken only if every assert calls no
    other function: ``set`` in ``set(f(x)) == {1}`` is skipped, but one problem asks for a ``sum``.
    SyntaxError: an assert is not Python.
    """
    called = [list(_called_names(ast.parse(line))) for line in asserts]
    in_all = [name for name in next(iter(called), ()) if all(name in names for names in called)]
    own = [name for name in in_all if not hasattr(builtins, name)]
    return next(iter(own or in_all), None)


def _called_names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        yield node.func.id
    for child in ast.iter_child_nodes(node):
        yield from _called_names(child)


HUMANEVAL = DataSet(
    parse=humaneval_problem,
    splits=("test",),
    patterns=(
        *("HumanEval.jsonl", "HumanEval.jsonl.gz"),
        *(*BY_SPLIT, "openai_humaneval/{split}-*.parquet"),
    ),
    hub_id="openai/openai_humaneval",
)
MBPP = DataSet(
    parse=mbpp_problem,
    splits=tuple(MBPP_TASKS),
    patterns=("mbpp.jsonl", *BY_SPLIT, "full/{split}-*.parquet"),
    hub_id="google-research-datasets/mbpp",
    hub_config="full",
    is_in=lambda row, split: row.read(_WHOLE, "task_id") in MBPP_TASKS[split],
)
