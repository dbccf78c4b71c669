"""pass@k of one problem: the chance that k of its paths hold a right one.

One problem's number only; means over problems and their intervals are made in `summary`.
"""

import math

from pipeline_lib.errors import BadInputError


def pass_at_k(num_paths: int, num_correct: int, k: int) -> float:
    """Unbiased estimate of the chance that at least one of ``k`` fresh paths is right.

    It is the share of the k-subsets of the paths that hold a right one, computed in integers and
    rounded once.

    Source: Chen et al. 2021, arXiv:2107.03374, equation 1.

    Args:
        num_paths: n, the scored paths of the problem.
        num_correct: c, how many of them are right, 0 <= c <= n.
        k: 1 <= k <= n.

    Raises:
        BadInputError: fewer than k paths, or a count out of its range.
    """
    check_counts(num_paths, num_correct, k)
    all_subsets = math.comb(num_paths, k)
    return (all_subsets - math.comb(num_paths - num_correct, k)) / all_subsets


def check_counts(num_paths: int, num_correct: int, k: int) -> None:
    """Refuse counts for which no unbiased estimate exists."""
    if k < 1:
        raise BadInputError(f"k={k}; pass@k and maj@k need k >= 1")
    if num_paths < k:
        raise BadInputError(f"{num_paths} scored paths; an estimate at k={k} needs at least {k}")
    if not 0 <= num_correct <= num_paths:
        raise BadInputError(f"{num_correct} right of {num_paths} paths; expected 0 to {num_paths}")
