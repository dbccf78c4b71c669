"""Problems with worked solutions, divided into a train and a validation part.

The base policy and the control are trained on the train part; the loss on the validation part selects
the control's checkpoint.
"""

import itertools
import pathlib
from collections.abc import Iterable
from dataclasses import dataclass

from pipeline_lib.errors import BadInputError
from pipeline_lib.records import Problem
from pipeline_lib.seeding import child_seed
from pipeline_lib.store import shards


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkedProblems:
    """Problems with a worked solution, in two parts."""

    train: tuple[Problem, ...]
    validation: tuple[Problem, ...]


def divide_worked(
    problems: Iterable[Problem], *, validation_fraction: float, seed: int
) -> WorkedProblems:
    """Divide the problems that have a solution; the division depends on seed and ids alone.

    The rounded ``validation_fraction``, in [0, 1), of them are the validation part.
    """
    worked = [problem for problem in problems if problem.solution is not None]
    order = sorted(worked, key=lambda problem: child_seed(seed, "worked", problem.id))
    held_apart = {problem.id for problem in order[: round(validation_fraction * len(worked))]}
    return WorkedProblems(
        train=tuple(problem for problem in worked if problem.id not in held_apart),
        validation=tuple(problem for problem in worked if problem.id in held_apart),
    )


def first_worked(problems: Iterable[Problem], count: int) -> list[Problem]:
    """The first ``count`` problems with a solution, as examples in prompts; BadInputError if there are fewer."""
    worked = (problem for problem in problems if problem.solution is not None)
    found = list(itertools.islice(worked, count))
    if len(found) < count:
        raise BadInputError(
            f"sample.shots={count}: {len(found)} problems of the bootstrap split have a solution; raise "
            "prepare.bootstrap_problems, or ask for fewer"
        )
    return found


def read_worked(table: pathlib.Path, *, validation_fraction: float, seed: int) -> WorkedProblems:
    """The worked problems of a sealed table, divided by :func:`divide_worked`."""
    problems = (Problem.from_row(row) for row in shards.iter_table(table))
    return divide_worked(problems, validation_fraction=validation_fraction, seed=seed)
