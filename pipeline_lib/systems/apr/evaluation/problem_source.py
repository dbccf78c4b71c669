"""Countdown problems of a file: ours, or the released problems or prompts; and their prompts for a model."""

import pathlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.params.whole import Params
from pipeline_lib.records import Problem
from pipeline_lib.sampling.prompts import instruction
from pipeline_lib.sampling.splits import checked_problems, checked_splits
from pipeline_lib.store.files import read_json
from pipeline_lib.systems.apr.countdown.grammar import read_problem
from pipeline_lib.systems.apr.countdown.task import root_state
from pipeline_lib.systems.apr.data_folder import check_data, problem_file, read_settings
from pipeline_lib.systems.apr.model_record import ThreadModelRecord
from pipeline_lib.systems.apr.problem_lines import problem_of_row, read_problems
from pipeline_lib.systems.apr.tasks import worked_examples
from pipeline_lib.systems.apr.words import parts

_EXPECTED = "expected nums and target, or the prompt of a root thread"
_SHOWN = 60
_EXAMPLES = 2
"""Worked examples of a model that was not trained."""


def read_problem_file(path: pathlib.Path) -> Sequence[Problem]:
    """The problems of a file: JSON lines of Countdown or in words, or a JSON list (``.json``) of Countdown.

    Lines have an id, and numbers and target, or a question and the gold of its kind. Items of a list are objects with
    ``nums`` and ``target``, or prompts of root threads; conditions in prompts are dropped.

    Raises:
        BadInputError: a missing file, no problem, or a malformed one, with its place.
    """
    problems = _read_list(path) if path.suffix == ".json" else read_problems(path)
    if not problems:
        raise BadInputError(f"{path}: holds no problem")
    for problem in problems:
        gold = problem.gold
        if isinstance(gold, CountdownGold) and read_problem(root_state(gold)) != gold:
            raise BadInputError(
                f"{path}: problem {problem.id!r}: numbers {list(gold.numbers)} and target "
                f"{gold.target}: expected numbers from 0 to 999999999"
            )
    return problems


def _read_list(path: pathlib.Path) -> list[Problem]:
    content = read_json(path)
    if not isinstance(content, list):
        raise BadInputError(f"{path}: no JSON list; {_EXPECTED} in each item")
    problems = []
    for place, item in enumerate(content):
        gold = read_problem(item.strip()) if isinstance(item, str) else None
        fields = item if isinstance(item, dict) else {}
        numbers = asdict(gold) if gold else {"numbers": fields.get("nums")}
        where = f"{path}: item {place}: {str(item)[:_SHOWN]}; {_EXPECTED}"
        row = {"target": fields.get("target"), **numbers, "id": f"{path.stem}-{place}"}
        problems.append(problem_of_row(row, where=where))
    return problems


def check_fit(
    model: pathlib.Path,
    record: ThreadModelRecord,
    problems: Sequence[Problem],
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
        gold = problem.gold
        numbers = len(gold.numbers) if isinstance(gold, CountdownGold) else None
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

    problems: Sequence[Problem]
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
    train = read_problems(problem_file(data, "train"))[:_EXAMPLES]
    in_words = settings.task == parts.NAME
    return ProblemSource(
        problems=read_problems(path),
        style=settings.form,
        examples=worked_examples(train, settings.parts) if in_words else None,
    )


def read_data_set(params: Params) -> ProblemSource:
    """The problems of the first of ``evaluate.sets``, as questions in words; BadInputError: it cannot be used."""
    problems, _ = checked_problems(params.evaluate.sets[0], seed=params.seed)
    return ProblemSource(problems=problems)


def read_task(params: Params, split: Literal["train", "test"]) -> ProblemSource:
    """The problems of a split of ``prepare.dataset``, asked by their whole prompts.

    Raises:
        BadInputError: it cannot be used.
    """
    problems: Sequence[Problem] = getattr(checked_splits(params.prepare, seed=params.seed), split)
    asked = [replace(one, turns=(("user", instruction(one)),)) for one in problems]
    return ProblemSource(problems=[replace(one, is_whole_prompt=True) for one in asked])
