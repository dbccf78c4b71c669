"""Countdown problems of a file: ours, or the released problems or prompts; and their prompts for a model."""

import pathlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import ValidationError

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.whole import Params
from pipeline_lib.records import Problem
from pipeline_lib.sampling.prompts import instruction
from pipeline_lib.sampling.splits import checked_problems, checked_splits
from pipeline_lib.store.files import read_json
from pipeline_lib.systems.apr.countdown.grammar import read_problem
from pipeline_lib.systems.apr.countdown.task import root_state
from pipeline_lib.systems.apr.data_folder import check_data, problem_file, read_settings
from pipeline_lib.systems.apr.model_record import ThreadModelRecord
from pipeline_lib.systems.apr.problem_lines import (
    ProblemLine,
    ThreadProblem,
    WordsLine,
    read_problems,
)
from pipeline_lib.systems.apr.tasks import worked_examples

_EXPECTED = "expected nums and target, or the prompt of a root thread"
_SHOWN = 60
_EXAMPLES = 2
"""Worked examples of a model that was not trained."""


def read_problem_file(path: pathlib.Path) -> Sequence[ThreadProblem]:
    """The problems of a file: JSON lines of Countdown or in words, or a JSON list (``.json``) of Countdown.

    Lines have an id, and numbers and target, or a question and the gold of its kind. Items of a list are objects with ``nums`` and ``target``, or prompts of root threads; conditions in
    prompts are dropped.

    Raises:
        BadInputError: a missing file, no problem, or a malformed one, with its place.
    """
    problems = _read_list(path) if path.suffix == ".json" else read_problems(path)
    if not problems:
        raise BadInputError(f"{path}: holds no problem")
    for problem in problems:
        if isinstance(problem, ProblemLine) and read_problem(root_state(problem)) != problem.gold:
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


def check_fit(
    model: pathlib.Path,
    record: ThreadModelRecord,
    problems: Sequence[ThreadProblem],
    *,
    style: str | None,
) -> None:
    """Check that problems are of a model's kind; ``style`` is of the data folder that they are from, if any.

    Raises:
        BadInputError: the data has another style, or a problem another number of numbers.
    """
    if style is not None and style != record.style and record.data is not None:
        raise BadInputError(
            f"{model}: of style {record.style}, the data is {style}; give data of the same style"
        )
    for problem in problems:
        numbers = len(problem.numbers) if isinstance(problem, ProblemLine) else None
        if numbers != record.num_numbers:
            asked, given = map(_described, (record.num_numbers, numbers))
            raise BadInputError(
                f"{model}: is for {asked}, problem {problem.id!r} has {given}; give problems or a model of the "
                "other kind"
            )


def _described(numbers: int | None) -> str:
    return "a question in words" if numbers is None else f"{numbers} numbers"


EvaluatedSplit = Literal["valid", "test", "wordings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemSource:
    """Problems with what is known of them."""

    problems: Sequence[ThreadProblem]
    style: str | None = None
    """Of the data folder that they are from; None for problems of a file."""
    examples: tuple[str, str] | None = None
    """Worked ones of the data folder, for a language model that was not trained on it: see `tasks.worked_examples`."""


def read_source(
    data: pathlib.Path | None, problems: pathlib.Path | None, split: str | None
) -> ProblemSource:
    """The problems of a split of a data folder, by default the test problems, or the problems of a file.

    Raises:
        BadInputError: not exactly one is given, a split of a file is asked for, or one cannot be used.
    """
    if (data is None) == (problems is None):
        raise BadInputError("give either --data DATA or --problems FILE, or --task FILE alone")
    if problems is not None:
        if split is not None:
            raise BadInputError(f"--split {split}: is for --data; a file of problems has no splits")
        return ProblemSource(problems=read_problem_file(problems))
    assert data is not None
    check_data(data)
    settings = read_settings(data).data
    path = problem_file(data, split or "test")
    if not path.is_file():
        raise BadInputError(f"--split {split}: {data} has no such problems")
    train = [
        one for one in read_problems(problem_file(data, "train")) if isinstance(one, WordsLine)
    ]
    return ProblemSource(
        problems=read_problems(path),
        style=settings.form,
        examples=worked_examples(train[:_EXAMPLES], settings.parts) if train else None,
    )


def read_data_set(params: Params) -> ProblemSource:
    """The problems of the only one of ``evaluate.sets``, as questions in words.

    Raises:
        BadInputError: there are several, or it cannot be used.
    """
    if len(params.evaluate.sets) != 1:
        raise BadInputError("--dataset: give one data set, and another --output for the next")
    problems, _ = checked_problems(params.evaluate.sets[0], seed=params.seed)
    return _in_words([(one, one.question) for one in problems])


def read_task(params: Params, split: Literal["train", "test"]) -> ProblemSource:
    """The problems of a split of ``prepare.dataset``, with their whole prompts as questions.

    Raises:
        BadInputError: it cannot be used.
    """
    problems: Sequence[Problem] = getattr(checked_splits(params.prepare, seed=params.seed), split)
    return _in_words([(one, instruction(one)) for one in problems])


def _in_words(asked: Sequence[tuple[Problem, str]]) -> ProblemSource:
    lines = [
        {"id": one.id, "question": question, "kind": one.kind.name, **one.kind.write_line(one.gold)}
        for one, question in asked
    ]
    return ProblemSource(problems=[*map(WordsLine.model_validate, lines)])
