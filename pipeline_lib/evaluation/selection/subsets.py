"""What a selector chooses from N of the n paths that were drawn, on average over all such subsets.

The mean is exact where a formula gives it or the subsets are few; else it is taken over subsets that
are drawn with a seed. It is taken before anything is scored, so no label is needed for it.
"""

import itertools
import math
from collections.abc import Iterable, Sequence

from pipeline_lib.errors import BadInputError
from pipeline_lib.evaluation.selection.selectors import Candidate, Choice, Selector
from pipeline_lib.seeding import child_generator


def mean_choice(
    selector: Selector,
    candidates: Sequence[Candidate],
    size: int,
    *,
    max_subsets: int,
    seed: int,
) -> Choice:
    """The chance of each candidate to be chosen from a random subset of ``size``.

    Args:
        selector: the rule.
        candidates: the n paths of a problem.
        size: N, 1 <= N <= n.
        max_subsets: so many are enumerated at most; of more, as many are drawn at random.
        seed: of this draw alone.

    Raises:
        BadInputError: fewer than ``size`` candidates.
    """
    if not 1 <= size <= len(candidates):
        raise BadInputError(f"a choice from {size} of {len(candidates)} paths; draw more paths")
    if size == len(candidates):
        return selector.choose(candidates)
    known = selector.mean_choice(candidates, size)
    if known is not None:
        return known
    if math.comb(len(candidates), size) <= max_subsets:
        return _mean_over(
            selector, candidates, itertools.combinations(range(len(candidates)), size)
        )
    generator = child_generator(seed, "subsets", size)
    drawn = generator.permuted(
        [list(range(len(candidates)))] * max_subsets,
        axis=1,
    )[:, :size]
    return _mean_over(selector, candidates, drawn.tolist())


def _mean_over(
    selector: Selector, candidates: Sequence[Candidate], subsets: Iterable[Sequence[int]]
) -> Choice:
    totals = [0.0] * len(candidates)
    num_subsets = 0
    for places in subsets:
        num_subsets += 1
        chances = selector.choose([candidates[place] for place in places])
        for place, chance in zip(places, chances, strict=True):
            totals[place] += chance
    return [total / num_subsets for total in totals]


def mean_longest(tokens: Sequence[int], size: int) -> float:
    """Expected length of the longest of ``size`` of these paths, exactly.

    The r-th shortest (r from 1) is the longest of C(r - 1, size - 1) subsets.
    """
    subsets = math.comb(len(tokens), size)
    return (
        sum(length * math.comb(rank, size - 1) for rank, length in enumerate(sorted(tokens)))
        / subsets
    )
