"""Mean choice of a selector over all subsets of N of the n sampled paths.

Exact if there is a closed form or if the subsets are few, else over seeded random subsets. No label
is needed: choices are averaged before they are scored.
"""

import itertools
import math
from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pipeline_lib.errors import BadInputError
from pipeline_lib.seeding import child_generator
from pipeline_lib.study.selection.selectors import CandidatePath, Choice, Selector


def mean_choice(
    selector: Selector,
    candidates: Sequence[CandidatePath],
    size: int,
    *,
    max_subsets: int,
    seed: int,
) -> Choice:
    """Selection probability of each candidate in a random subset of ``size``.

    Args:
        selector: selection rule.
        candidates: the n paths of a problem.
        size: N, 1 <= N <= n.
        max_subsets: most subsets to enumerate; beyond, this many are drawn at random.
        seed: seed of that draw.

    Raises:
        BadInputError: fewer than ``size`` candidates.
    """
    if not 1 <= size <= len(candidates):
        raise BadInputError(f"a choice from {size} of {len(candidates)} paths; draw more paths")
    if size == len(candidates):
        return selector.choose(candidates)
    subsets = partial(_subsets, len(candidates), size, max_subsets=max_subsets, seed=seed)
    return selector.mean_choice(candidates, size, subsets)


def _subsets(count: int, size: int, *, max_subsets: int, seed: int) -> NDArray[np.intp]:
    if math.comb(count, size) <= max_subsets:
        return np.array(list(itertools.combinations(range(count), size)))
    generator = child_generator(seed, "subsets", size)
    return generator.permuted([list(range(count))] * max_subsets, axis=1)[:, :size]


def mean_longest(tokens: Sequence[int], size: int) -> float:
    """Exact expected maximum of the lengths in a random subset of ``size``.

    The r-th shortest (r from 1) is the longest of C(r - 1, size - 1) subsets.
    """
    subsets = math.comb(len(tokens), size)
    return (
        sum(length * math.comb(rank, size - 1) for rank, length in enumerate(sorted(tokens)))
        / subsets
    )
