"""pass@k of one problem; `study.policies` averages over problems."""

import math

from pipeline_lib.errors import BadInputError


def pass_at_k(num_paths: int, num_correct: int, k: int) -> float:
    """Unbiased estimate of the probability that at least one of ``k`` fresh paths is right.

    The share of k-subsets of the paths with at least one right path, in exact integer arithmetic.

    Source: Chen et al. 2021, arXiv:2107.03374, equation 1.

    Args:
        num_paths: n, the scored paths of the problem.
        num_correct: c, the number of right ones, 0 <= c <= n.
        k: 1 <= k <= n.

    Raises:
        BadInputError: fewer than k paths, or a count out of range.
    """
    check_counts(num_paths, num_correct, k)
    all_subsets = math.comb(num_paths, k)
    return (all_subsets - math.comb(num_paths - num_correct, k)) / all_subsets


def check_counts(num_paths: int, num_correct: int, k: int) -> None:
    """Raise BadInputError for counts without an unbiased estimate."""
    if k < 1:
        raise BadInputError(f"k={k}; pass@k and maj@k need k >= 1")
    if num_paths < k:
        raise BadInputError(f"{num_paths} scored paths; an estimate at k={k} needs at least {k}")
    if not 0 <= num_correct <= num_paths:
        raise BadInputError(f"{num_correct} right of {num_paths} paths; expected 0 to {num_paths}")
