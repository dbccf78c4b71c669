"""A task of one's own tried out: its problems are read, and texts of known worth are judged by its verifier."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipeline_lib.errors import BadInputError
from pipeline_lib.own.calls import Call, OwnCode
from pipeline_lib.own.code import Source, names_of
from pipeline_lib.params.whole import Params
from pipeline_lib.problems.loading import task_in
from pipeline_lib.problems.own_task import problem_of
from pipeline_lib.records import Problem
from pipeline_lib.sampling.splits import checked_splits
from pipeline_lib.store.workspace import SPLITS
from pipeline_lib.terminal_text import one_line
from pipeline_lib.verdicts import Verdict
from pipeline_lib.verify.dispatch import Item, open_verifier

_VALIDATE = "validate"
_TRIED = 200
"""Problems of each split whose solutions are judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A text whose worth is known, and the verdict on it."""

    problem: Problem
    text: str
    is_right: bool
    verdict: Verdict

    @property
    def fault(self) -> str | None:
        """What is wrong with the verdict, if anything."""
        if self.verdict.strict is self.is_right:
            return None
        shown = one_line(repr(self.text), most=60)
        said = {True: "right", False: "wrong", None: "not judged"}[self.verdict.strict]
        why = f" ({self.verdict.detail})" if self.verdict.detail else ""
        return f"problem {self.problem.id}: {shown} is {said}{why}, expected {'right' if self.is_right else 'wrong'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCheck:
    """What was found."""

    counts: Mapping[str, int]
    """Problems by split."""
    trials: Sequence[Trial]

    @property
    def faults(self) -> list[str]:
        """Of all trials."""
        return [fault for one in self.trials if (fault := one.fault) is not None]


def check_task(params: Params) -> TaskCheck:
    """Read the task of ``prepare.dataset``, and judge its texts.

    Raises:
        BadInputError: it is no task, or its problems or texts cannot be used.
    """
    task = task_in(params.prepare)
    if task is None:
        raise BadInputError(f"{params.prepare.dataset}: is no task; give a file that ends in .py")
    splits = checked_splits(params.prepare, seed=params.seed)
    by_split = {split: getattr(splits, split) for split in SPLITS}
    known = [*(_given(task, params) if _VALIDATE in names_of(task) else _solutions(by_split))]
    items = [Item(gold=problem.gold, text=text) for problem, text, _ in known]
    with open_verifier(params.verify, workers=params.execution.workers) as verifier:
        verdicts = verifier.judge(items)
    return TaskCheck(
        counts={split: len(some) for split, some in by_split.items()},
        trials=[
            Trial(problem=problem, text=text, is_right=is_right, verdict=verdict)
            for (problem, text, is_right), verdict in zip(known, verdicts, strict=True)
        ],
    )


def _given(task: Source, params: Params) -> Iterator[tuple[Problem, str, bool]]:
    with OwnCode(task, params.verify.own) as code:
        [result] = code.call([Call(function=_VALIDATE)])
    where = f"{task.file.name}: validate()"
    for number, one in enumerate(result.rows(where), 1):
        if not (isinstance(one, list) and len(one) == 3 and isinstance(one[1], str)):
            raise BadInputError(
                f"{where} item {number}: expected a problem, a text, and True or False"
            )
        problem, text, is_right = one
        yield problem_of(task, problem, f"{where} item {number}"), text, bool(is_right)


def _solutions(splits: Mapping[str, Sequence[Problem]]) -> Iterator[tuple[Problem, str, bool]]:
    for problems in splits.values():
        for problem in problems[:_TRIED]:
            if problem.solution is not None:
                yield problem, problem.kind.solution_texts(problem.gold, problem.solution)[0], True
            yield problem, "", False
