r"""Rows as problems: of a short final answer (GSM8K, MATH, AIME, HMMT) or of a Python function (HumanEval, MBPP).

Golds are kept as published; `splits` removes problems whose gold the verifier cannot parse. Tests are
text here: parsed, never run.
"""

from collections.abc import Mapping
from dataclasses import replace

from pydantic import StrictInt, TypeAdapter

from pipeline_lib.kinds.code import CodeGold, given_beside
from pipeline_lib.problems.data_set import BY_SPLIT, DataSet, RawRow
from pipeline_lib.problems.lines import MARK, TEXTS, called_function, problem_of_row
from pipeline_lib.records import Problem

_WHOLE: TypeAdapter[int] = TypeAdapter(StrictInt)


def gsm8k_problem(row: RawRow, *, id_prefix: str, source: str) -> Problem:
    """A row of GSM8K: ``answer`` is a worked solution whose last line is ``#### 1,080``."""
    if MARK not in row.text("answer"):
        raise row.error("answer", f"no answer after {MARK!r}")
    return problem_of_row(row, id_prefix=id_prefix, source=source)


GSM8K = DataSet(
    parse=gsm8k_problem,
    splits=("train", "test"),
    patterns=(*BY_SPLIT, "main/{split}-*.parquet"),
    hub_id="openai/gsm8k",
    hub_config="main",
)
MATH = DataSet(parse=problem_of_row, splits=("train", "test"))
MATH_500 = replace(MATH, hub_id="HuggingFaceH4/MATH-500")
YEARLY_CONTEST = DataSet(parse=problem_of_row, splits=("test",), many_editions=True)
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
    shown = "\n".join(line.strip() for line in row.read(TEXTS, "test_list"))
    name = called_function(row, "test_list", shown)
    setup = _unix_lines(row.text("test_setup_code")) if row.has("test_setup_code") else ""
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
