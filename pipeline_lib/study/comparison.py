"""Paired comparison of two evaluation summaries: differences, McNemar's test, flips.

Only problems that both summaries score are compared; the others are counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.seeding import child_seed
from pipeline_lib.study.statistics.paired import (
    Flip,
    McNemar,
    PairedDifference,
    gained_flips,
    lost_flips,
    mcnemar,
    paired_difference,
)
from pipeline_lib.study.statistics.resampling import Floats
from pipeline_lib.study.summary import EvalSummary, ProblemScore


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Trained minus base on the problems that both summaries score."""

    num_problems: int
    num_unpaired: int
    """Problems that only one summary scores."""
    strict: Mapping[int, PairedDifference]
    """Difference of pass@k by k."""
    lenient: Mapping[int, PairedDifference]
    format_share: PairedDifference
    """Part of the pass@1 difference due to format: strict minus lenient difference."""
    single: McNemar
    gained: tuple[Flip, ...]
    lost: tuple[Flip, ...]


def compare(
    base: EvalSummary, trained: EvalSummary, params: EvaluateParams, *, seed: int
) -> Comparison:
    """Compare two summaries on the problems that both score.

    Args:
        base: summary before training.
        trained: summary after training, on the same problems with the same seeds.
        params: ks, resamples and confidence_level.
        seed: seed of the bootstrap.

    Raises:
        BadInputError: the summaries have no problem in common.
    """
    before = {score.problem_id: score for score in base.problems}
    after = {score.problem_id: score for score in trained.problems}
    shared = sorted(before.keys() & after.keys())
    if not shared:
        raise BadInputError("base and trained share no problem; evaluate both on the same split")
    pairs = [(before[problem_id], after[problem_id]) for problem_id in shared]

    def difference(base_P: Floats, trained_P: Floats, name: str) -> PairedDifference:
        return paired_difference(
            base_P, trained_P, params, seed=child_seed(seed, "difference", name)
        )

    strict = _values(pairs, params.ks, strict=True)
    lenient = _values(pairs, params.ks, strict=False)
    flips = _flips(pairs)
    return Comparison(
        num_problems=len(pairs),
        num_unpaired=len(before.keys() ^ after.keys()),
        strict={k: difference(*both, f"strict@{k}") for k, both in strict.items()},
        lenient={k: difference(*both, f"lenient@{k}") for k, both in lenient.items()},
        format_share=difference(*_format_effect(pairs), "format"),
        single=mcnemar(
            [base_score.first_strict for base_score, _ in pairs],
            [trained_score.first_strict for _, trained_score in pairs],
        ),
        gained=gained_flips(flips),
        lost=lost_flips(flips),
    )


def _values(
    pairs: Sequence[tuple[ProblemScore, ProblemScore]], ks: Sequence[int], *, strict: bool
) -> dict[int, tuple[Floats, Floats]]:
    """pass@k of every problem, base and trained, by k."""
    return {
        k: (
            np.array([base.pass_at(k, strict=strict) for base, _ in pairs]),
            np.array([trained.pass_at(k, strict=strict) for _, trained in pairs]),
        )
        for k in ks
    }


def _format_effect(pairs: Sequence[tuple[ProblemScore, ProblemScore]]) -> tuple[Floats, Floats]:
    """Strict minus lenient pass@1 of base and trained: the cost of format errors, at most zero."""
    base_strict, trained_strict = _values(pairs, [1], strict=True)[1]
    base_lenient, trained_lenient = _values(pairs, [1], strict=False)[1]
    return base_strict - base_lenient, trained_strict - trained_lenient


def _flips(pairs: Sequence[tuple[ProblemScore, ProblemScore]]) -> list[Flip]:
    return [
        Flip(
            problem_id=base.problem_id,
            base=base.pass_at(1, strict=True),
            trained=trained.pass_at(1, strict=True),
        )
        for base, trained in pairs
    ]
