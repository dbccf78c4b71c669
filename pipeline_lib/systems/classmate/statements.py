"""The step with which a chain states its solution outside any answer format, by the kind of the problem."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.kinds.kind import Gold
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.records import Problem
from pipeline_lib.systems.classmate import countdown_statements, math_statements

RULES: Mapping[type[Gold], Callable[[Problem, Sequence[str]], int | None]] = {
    CountdownGold: countdown_statements.first_solution,
    MathGold: math_statements.first_answer,
}


def first_statement(problem: Problem, steps: Sequence[str]) -> int | None:
    """Index of the first of the ``steps`` of a chain with which it states the solution; None if none does."""
    rule = RULES.get(type(problem.gold))
    return None if rule is None else rule(problem, steps)


def candidates(problem: Problem, step: str) -> Iterator[str]:
    """Answers in a step that only the verifier can compare with the gold."""
    if isinstance(problem.gold, MathGold):
        yield from math_statements.candidates(problem, step)
