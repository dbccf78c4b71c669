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
from pipeline_lib.kinds.own import OWN
from pipeline_lib.own.calls import Call, OwnCode
from pipeline_lib.own.code import TASKS, Source, find_function, find_source, names_of
from pipeline_lib.own.task_sets import is_task_set
from pipeline_lib.params.paths import LINES, DataParams, OwnLimits
from pipeline_lib.problems.data_set import RawRow
from pipeline_lib.problems.lines import Turns, lines_data_set
from pipeline_lib.records import Problem

PROBLEMS, PROMPTS, VERIFY, THREADS = "problems", ("prompt", "PROMPT"), "verify", "THREADS"
PARTS = "parts"
_LIMITS = OwnLimits(timeout_s=600.0, memory_mb=1 << 14)
_TURNS: TypeAdapter[Any] = TypeAdapter(Turns)


def task_of(name: str) -> Source | None:
    """The source of ``prepare.dataset``, if it is a task; BadInputError: a file or a task set that does not exist."""
    try:
        return find_source(name, key="prepare.dataset", group=TASKS)
    except BadInputError:
        if name.endswith(".py") or is_task_set(name):
            raise
        return None


def task_problems(
    source: Source, counts: Mapping[str, int], *, seed: int
) -> dict[str, list[Problem]]:
    """The first problems of each split of a task, as many as ``counts``.

    Raises:
        BadInputError: its function fails, or gives rows that cannot be used.
    """
    shares = {"wanted": counts} if source.given else {}
    calls = [
        Call(function=PROBLEMS, args=[*source.given, split, seed], options=shares, most=count)
        for split, count in counts.items()
    ]
    with OwnCode(source, _LIMITS) as code:
        results = code.call(calls)
    found: dict[str, dict[str, Problem]] = {split: {} for split in counts}
    faults = Faults()
    for split, result in zip(counts, results, strict=True):
        where = f"{source.name}: problems({split!r}, {seed})"
        for index, fields in enumerate(result.rows(where)):
            with faults.kept():
                problem = problem_of(source, fields, f"{where} row {index + 1}", index=index)
                found[split][problem.id] = problem
    faults.raise_any()
    return {split: [*problems.values()] for split, problems in found.items()}


def problem_of(source: Source, fields: Any, where: str, *, index: int = 0) -> Problem:
    """The problem of a row of a task; BadInputError: it is none."""
    if isinstance(fields, Problem):
        return fields
    if not isinstance(fields, dict):
        raise BadInputError(f"{where}: expected a dict, got {fields!r:.60}")
    row = RawRow(fields=fields, where=where, index=index)
    form = DataParams(dataset=LINES, kind=OWN.name if VERIFY in names_of(source) else None)
    problem = lines_data_set(form).parse(row, id_prefix="", source=source.name.removesuffix(".py"))
    assert isinstance(problem, Problem)
    if not problem.question.strip():
        raise row.error("question", "it is empty")
    return replace(problem, where=where)


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
        results = code.call([Call(function=function.name, args=[one]) for one in problems])
    asked = []
    for problem, result in zip(problems, results, strict=True):
        prompt = result.checked(f"prepare.prompt: problem {problem.id}")
        is_template = function.name.isupper() and isinstance(prompt, str)
        asked.append(_asked(problem, _filled(prompt, problem) if is_template else prompt))
    return asked


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
