"""Tasks of one's own: problems of one file or module, and prompts of one's own for problems of any data set.

``problems(split, seed)`` yields rows as of the data set `lines` for the split train, test or bootstrap; ``PROMPT`` is a
template, ``prompt(problem)`` a function in its place.
"""

import string
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from pipeline_lib.errors import BadInputError, Faults, first_fault
from pipeline_lib.killable.client import Lost
from pipeline_lib.kinds.own import OWN
from pipeline_lib.own.calls import Call, OwnCode
from pipeline_lib.own.code import TASKS, Function, Source, find_function, find_source, names_of
from pipeline_lib.params.paths import LINES, DataParams, OwnLimits
from pipeline_lib.problems.data_set import RawRow
from pipeline_lib.problems.lines import Turns, lines_data_set
from pipeline_lib.records import Problem

PROBLEMS, PROMPTS, VERIFY = "problems", ("prompt", "PROMPT"), "verify"
_LIMITS = OwnLimits(timeout_s=600.0, memory_mb=1 << 14)
_TURNS: TypeAdapter[Any] = TypeAdapter(Turns)


def task_of(name: str) -> Source | None:
    """The source of ``prepare.dataset``, if it is a task; BadInputError: a file or a task set that does not exist."""
    if name.endswith(".py") or ":" in name:
        return find_source(name, key="prepare.dataset", group=TASKS)
    try:
        return find_source(name, key="prepare.dataset", group=TASKS)
    except BadInputError:
        return None


def task_problems(
    source: Source, counts: Mapping[str, int], *, seed: int
) -> dict[str, list[Problem]]:
    """The first problems of each split of a task, as many as ``counts``.

    Raises:
        BadInputError: its function fails, or gives rows that cannot be used.
    """
    found: dict[str, list[Problem]] = {}
    faults = Faults()
    for split, rows in _rows(source, counts, seed).items():
        for row in rows:
            with faults.kept():
                found.setdefault(split, []).append(_parsed(source, row))
    faults.raise_any()
    return {split: [*{one.id: one for one in some}.values()] for split, some in found.items()}


def problem_of(source: Source, fields: Any, where: str) -> Problem:
    """The problem of a row of a task; BadInputError: it is none."""
    if isinstance(fields, Problem):
        return fields
    if not isinstance(fields, dict):
        raise BadInputError(f"{where}: expected a dict, got {fields!r:.60}")
    return _parsed(source, RawRow(fields=fields, where=where, index=0))


def _parsed(source: Source, row: RawRow) -> Problem:
    form = DataParams(dataset=LINES, kind=OWN.name if VERIFY in names_of(source) else None)
    problem = lines_data_set(form).parse(row, id_prefix="", source=source.name.removesuffix(".py"))
    assert isinstance(problem, Problem)
    if not problem.question.strip():
        raise row.error("question", "it is empty")
    return replace(problem, where=row.where)


def _rows(source: Source, counts: Mapping[str, int], seed: int) -> dict[str, list[RawRow]]:
    shares = {"wanted": counts} if source.given else {}
    calls = [
        Call(function=PROBLEMS, args=[*source.given, split, seed], options=shares, most=count)
        for split, count in counts.items()
    ]
    with OwnCode(source, _LIMITS) as code:
        results = code.call(calls)
    rows = {}
    for split, result in zip(counts, results, strict=True):
        where = f"{source.name}: problems({split!r}, {seed})"
        if result.failure is not None:
            why = result.failure.value if isinstance(result.failure, Lost) else result.failure
            raise BadInputError(f"{where}: {why}")
        if not isinstance(result.value, list):
            raise BadInputError(f"{where}: expected rows, got {type(result.value).__name__}")
        for number, fields in enumerate(result.value, 1):
            if not isinstance(fields, dict):
                raise BadInputError(f"{where} row {number}: expected a dict, got {fields!r:.60}")
        rows[split] = [
            RawRow(fields=fields, where=f"{where} row {number}", index=number - 1)
            for number, fields in enumerate(result.value, 1)
        ]
    return rows


def with_prompts(problems: Sequence[Problem], prompt: str | None) -> list[Problem]:
    """The problems with the prompts of ``prepare.prompt``: a template, or a function of a problem.

    Raises:
        BadInputError: a template with a name that a problem has not, or a function without a prompt.
    """
    if prompt is None:
        return [*problems]
    if "{" in prompt:
        return [_asked(one, _filled(prompt, one)) for one in problems]
    function = find_function(prompt, key="prepare.prompt", group=TASKS)
    with OwnCode(function.source, _LIMITS) as code:
        prompts = _prompts(code, function, problems)
    return [_asked(*one) for one in zip(problems, prompts, strict=True)]


def _prompts(code: OwnCode, function: Function, problems: Sequence[Problem]) -> list[Any]:
    results = code.call([Call(function=function.name, args=[one]) for one in problems])
    for problem, result in zip(problems, results, strict=True):
        if result.failure is not None:
            why = result.failure.value if isinstance(result.failure, Lost) else result.failure
            raise BadInputError(f"prepare.prompt: problem {problem.id}: {why}")
    # A template that its file names gives itself.
    return [
        _filled(one.value, problem)
        if function.name.isupper() and isinstance(one.value, str)
        else one.value
        for problem, one in zip(problems, results, strict=True)
    ]


def _filled(template: str, problem: Problem) -> str:
    given = {**problem.columns, "question": problem.question}
    try:
        return string.Formatter().vformat(template, (), given)
    except (KeyError, IndexError, ValueError, AttributeError) as error:
        raise BadInputError(
            f"prepare.prompt: {error!r} in {template!r:.60}: names are {', '.join(given)}; write {{{{ and }}}} for braces"
        ) from error


def _asked(problem: Problem, prompt: Any) -> Problem:
    given = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    try:
        turns = _TURNS.validate_python(given)
    except ValidationError as error:
        raise BadInputError(
            f"prepare.prompt: problem {problem.id}: {first_fault(error)}; a prompt is a text or a list of role, content"
        ) from error
    return replace(
        problem, turns=tuple((turn.role, turn.content) for turn in turns), is_whole_prompt=True
    )
