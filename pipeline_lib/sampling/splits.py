"""Splits of a data set, without problems whose golds cannot be verified against."""

from pipeline_lib.params.evaluate import EvaluationSet
from pipeline_lib.params.paths import PrepareParams
from pipeline_lib.problems.splits import Splits, evaluation_problems, make_splits
from pipeline_lib.records import Problem
from pipeline_lib.verify.golds import open_gold_check


def checked_splits(params: PrepareParams, *, seed: int) -> Splits:
    """The splits of `make_splits` by the check of all kinds.

    Raises:
        BadInputError: as `make_splits`.
    """
    with open_gold_check() as gold_problem:
        return make_splits(params, seed=seed, gold_problem=gold_problem)


def checked_problems(params: EvaluationSet, *, seed: int) -> tuple[list[Problem], str | None]:
    """The problems of `evaluation_problems` by the check of all kinds, and a note if some are left out.

    Raises:
        BadInputError: as `evaluation_problems`.
    """
    with open_gold_check() as gold_problem:
        problems, unusable = evaluation_problems(params, seed=seed, gold_problem=gold_problem)
    if not unusable:
        return problems, None
    first = unusable[0]
    return problems, (
        f"{params.dataset}: {len(unusable)} problems are left out, since their golds cannot be verified against "
        f"(first: {first['problem_id']}, {first['reason']})"
    )
