"""Mean choice of a selector over all subsets of N of the n sampled paths.

Exact if there is a closed form or if the subsets are few, else over seeded random subsets. No label
is needed: choices are averaged before they are scored.
"""

import itertools
import math
from collections.abc import Iterable, Sequence

from pipeline_lib.errors import BadInputError
from pipeline_lib.evaluation.selection.selectors import CandidatePath, Choice, Selector
from pipeline_lib.seeding import child_generator


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
    selector: Selector, candidates: Sequence[CandidatePath], subsets: Iterable[Sequence[int]]
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
    """Exact expected maximum of the lengths in a random subset of ``size``.

    The r-th shortest (r from 1) is the longest of C(r - 1, size - 1) subsets.
    """
    subsets = math.comb(len(tokens), size)
    return (
        sum(length * math.comb(rank, size - 1) for rank, length in enumerate(sorted(tokens)))
        / subsets
    )
