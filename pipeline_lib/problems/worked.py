"""Worked problems: what a policy can be trained on without the loop.

They are divided once, so that the base policy and the control are trained on the same problems, and
neither on those whose loss chooses the control's checkpoint.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pipeline_lib.records import Problem
from pipeline_lib.seeding import child_seed


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkedProblems:
    """Problems with a worked solution."""

    train: tuple[Problem, ...]
    validation: tuple[Problem, ...]


def worked_problems(
    problems: Iterable[Problem], *, validation_fraction: float, seed: int
) -> WorkedProblems:
    """Divide the problems that have a solution; which part one is in follows from seed and id.

    Args:
        problems: those without a solution are left out.
        validation_fraction: share of the validation part, rounded; in [0, 1).
        seed: the root seed.
    """
    worked = [problem for problem in problems if problem.solution is not None]
    order = sorted(worked, key=lambda problem: child_seed(seed, "worked", problem.id))
    held_apart = {problem.id for problem in order[: round(validation_fraction * len(worked))]}
    return WorkedProblems(
        train=tuple(problem for problem in worked if problem.id not in held_apart),
        validation=tuple(problem for problem in worked if problem.id in held_apart),
    )
