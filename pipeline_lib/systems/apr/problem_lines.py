"""Problems of threads in files of JSON lines: Countdown, or questions in words with a gold of any kind."""

import pathlib
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Annotated, Any

from pydantic import BaseModel, Field, StrictStr

from pipeline_lib.errors import BadInputError, errors_at
from pipeline_lib.kinds.countdown import COUNTDOWN, CountdownGold
from pipeline_lib.kinds.kind import DistinctIds, Name
from pipeline_lib.kinds.math import MATH
from pipeline_lib.kinds.table import find_kind
from pipeline_lib.problems.countdown import NAME, question_of
from pipeline_lib.records import Problem, Row
from pipeline_lib.store.files import numbered_json_lines


class _Line(BaseModel, frozen=True):
    id: Name
    question: Annotated[StrictStr, Field(min_length=1)] | None = None
    turns: tuple[tuple[str, str], ...] = ()
    """The whole prompt, if it is not made of the question."""


def countdown_problem(name: str, gold: CountdownGold) -> Problem:
    """A problem of Countdown: prompts have the numbers in the order of the gold, the question has them sorted."""
    question = question_of(tuple(sorted(gold.numbers)), gold.target)
    return Problem(id=name, question=question, gold=gold, source=NAME)


def with_sorted_numbers(problem: Problem) -> Problem:
    """The problem as other systems pose it."""
    gold = problem.gold
    if not isinstance(gold, CountdownGold):
        return problem
    return replace(problem, gold=replace(gold, numbers=tuple(sorted(gold.numbers))))


def problem_of_row(row: Mapping[str, Any], *, where: str) -> Problem:
    """The problem of a line; one with a question is in words, and its further keys are its columns.

    Raises:
        BadInputError: the line cannot be used.
    """
    kind = find_kind(row.get("kind", MATH.name), where=where)
    with errors_at(where, unnamed="gold"):
        line = _Line.model_validate(row)
        if line.question is None:
            gold = COUNTDOWN.read_line(row)
            if len(gold.numbers) < 2:
                raise BadInputError("numbers: give at least 2")
            return countdown_problem(line.id, gold)
        words = Problem(
            id=line.id,
            question=line.question,
            gold=kind.read_line(row),
            source="words",
            turns=line.turns,
            is_whole_prompt=bool(line.turns),
        )
    own = row_of_problem(words)
    return replace(words, columns={name: row[name] for name in row if name not in own})


def row_of_problem(problem: Problem) -> Row:
    """The line of a problem."""
    if isinstance(problem.gold, CountdownGold):
        return {"id": problem.id, **asdict(problem.gold)}
    asked = {"id": problem.id, "question": problem.question, "kind": problem.kind.name}
    turns = {"turns": problem.turns} if problem.is_whole_prompt else {}
    return {**asked, **turns, **problem.kind.write_line(problem.gold), **problem.columns}


def read_problems(path: pathlib.Path) -> list[Problem]:
    """The problems of a JSON-lines file.

    Raises:
        BadInputError: a missing file, a malformed line, or an id that occurs twice, with its line.
    """
    problems = []
    ids = DistinctIds()
    for number, row in numbered_json_lines(path):
        problems.append(problem_of_row(row, where=f"{path}:{number}"))
        ids.add(problems[-1].id, path=path, number=number)
    return problems
