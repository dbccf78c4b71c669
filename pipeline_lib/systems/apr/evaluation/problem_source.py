"""Countdown problems of a file: ours, or the released problems or prompts; and their prompts for a model."""

import pathlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import ValidationError

from pipeline_lib.errors import BadInputError
from pipeline_lib.store.files import read_json
from pipeline_lib.systems.apr.countdown import lines
from pipeline_lib.systems.apr.countdown.data_folder import (
    ProblemLine,
    check_data,
    problem_file,
    read_problems,
    read_settings,
)
from pipeline_lib.systems.apr.countdown.grammar import read_problem
from pipeline_lib.systems.apr.model_record import ThreadModelRecord

_EXPECTED = "expected nums and target, or the prompt of a root thread"
_SHOWN = 60


def read_problem_file(path: pathlib.Path) -> list[ProblemLine]:
    """The problems of a file: JSON lines with id, numbers and target, or a JSON list (``.json``).

    Items of a list are objects with ``nums`` and ``target``, or prompts of root threads; conditions in
    prompts are dropped.

    Raises:
        BadInputError: a missing file, no problem, or a malformed one, with its place.
    """
    problems = _read_list(path) if path.suffix == ".json" else read_problems(path)
    if not problems:
        raise BadInputError(f"{path}: holds no problem")
    for problem in problems:
        if read_problem(_state(problem)) != problem.gold:
            raise BadInputError(
                f"{path}: problem {problem.id!r}: numbers {list(problem.numbers)} and target "
                f"{problem.target}: expected numbers from 0 to 999999999"
            )
    return problems


def _read_list(path: pathlib.Path) -> list[ProblemLine]:
    content = read_json(path)
    if not isinstance(content, list):
        raise BadInputError(f"{path}: no JSON list; {_EXPECTED} in each item")
    problems = []
    for place, item in enumerate(content):
        name = f"{path.stem}-{place}"
        gold = read_problem(item.strip()) if isinstance(item, str) else None
        fields = item if isinstance(item, dict) else {}
        numbers, target = (
            (gold.numbers, gold.target) if gold else (fields.get("nums"), fields.get("target"))
        )
        try:
            problems.append(
                ProblemLine.model_validate({"id": name, "numbers": numbers, "target": target})
            )
        except ValidationError as error:
            shown = str(item)[:_SHOWN]
            raise BadInputError(f"{path}: item {place}: {shown}; {_EXPECTED}") from error
    return problems


def root_prompt(problem: ProblemLine, record: ThreadModelRecord, condition: str) -> str:
    """The prompt of a model's root thread, with ``condition`` before it."""
    if (record.kind, record.style) == ("serial", "published"):
        return condition + _state(problem)
    return condition + "\n".join([lines.move("0"), _state(problem)])


def _state(problem: ProblemLine) -> str:
    return lines.state(problem.target, problem.numbers, [])


def check_fit(
    model: pathlib.Path,
    record: ThreadModelRecord,
    problems: Sequence[ProblemLine],
    *,
    style: str | None,
) -> None:
    """Check that problems are of a model's kind; ``style`` is of the data folder that they are from, if any.

    Raises:
        BadInputError: the data has another style, or a problem another number of numbers.
    """
    if style is not None and style != record.style:
        raise BadInputError(
            f"{model}: of style {record.style}, the data is {style}; give data of the same style"
        )
    for problem in problems:
        if len(problem.numbers) != record.num_numbers:
            raise BadInputError(
                f"{model}: its tokenizer is for {record.num_numbers} numbers, problem {problem.id!r} has "
                f"{len(problem.numbers)}; give problems or a model of the other number"
            )


EvaluatedSplit = Literal["valid", "test"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemSource:
    """Problems with what is known of them."""

    problems: Sequence[ProblemLine]
    style: str | None = None
    """Of the data folder that they are from; None for problems of a file."""


def read_source(
    data: pathlib.Path | None, problems: pathlib.Path | None, split: EvaluatedSplit | None
) -> ProblemSource:
    """The problems of a split of a data folder, by default the test problems, or the problems of a file.

    Raises:
        BadInputError: not exactly one is given, a split of a file is asked for, or one cannot be used.
    """
    if (data is None) == (problems is None):
        raise BadInputError("give either --data DATA or --problems FILE")
    if problems is not None:
        if split is not None:
            raise BadInputError(f"--split {split}: is for --data; a file of problems has no splits")
        return ProblemSource(problems=read_problem_file(problems))
    assert data is not None
    check_data(data)
    return ProblemSource(
        problems=read_problems(problem_file(data, split or "test")),
        style=read_settings(data).data.style,
    )
