"""Golds checked when a data set is built, so that no answer is ever judged against a broken one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pipeline_lib.kinds.kind import Gold
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.paths import MathLimits
from pipeline_lib.verification.math_answer import MathJudge

GoldProblem = Callable[[Gold], str | None]


@contextmanager
def open_gold_check() -> Iterator[GoldProblem]:
    """Yield a function that says why a gold cannot be used, or None if it can.

    Only golds of mathematics can be beyond their verifier; those that need SymPy are parsed in a
    process of their own, which ends with the context.
    """
    with MathJudge(MathLimits(), workers=1) as judge:

        def gold_problem(gold: Gold) -> str | None:
            return judge.gold_problems([gold])[0] if isinstance(gold, MathGold) else None

        yield gold_problem
