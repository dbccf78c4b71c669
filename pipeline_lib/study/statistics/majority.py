"""maj@k of one problem: probability that the majority answer of k paths is right.

Exact over all k-subsets of the paths, so no seed is needed. Votes are for the extracted answer, up
to white space: two forms of one number are two answers, because merging them by comparison with
the gold would leak the label. Paths without an answer do not vote. Ties are split evenly.
"""

import functools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline_lib.study.statistics.pass_at_k import check_counts

Ways = list[list[int]]
"""``ways[ties][used]``: ways to take ``used`` paths such that ``ties`` answers reach the lead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """Answer and correctness of one scored path."""

    answer: str | None
    correct: bool


def majority_at_k(votes: Sequence[Vote], k: int) -> float:
    """Expected share of k-subsets of ``votes`` whose most frequent answer is right.

    Source: Wang et al. 2022, arXiv:2203.11171 (self-consistency), with the expectation taken over
    subsets as for pass@k.

    Raises:
        BadInputError: fewer than k votes.
    """
    check_counts(len(votes), sum(vote.correct for vote in votes), k)
    normalised = [(_normalised(vote.answer), vote.correct) for vote in votes]
    counts = Counter(answer for answer, _ in normalised if answer is not None)
    right = {answer for answer, correct in normalised if correct and answer is not None}
    num_silent = len(votes) - counts.total()
    chances = win_chances(list(counts.values()), num_silent=num_silent, k=k)
    return math.fsum(
        chance for answer, chance in zip(counts, chances, strict=True) if answer in right
    )


def win_chances(counts: Sequence[int], *, num_silent: int, k: int) -> list[float]:
    """Probability of each answer to win the vote in a random k-subset of the paths.

    Args:
        counts: paths per answer.
        num_silent: paths without an answer.
        k: 1 <= k <= number of paths.

    Returns:
        Probabilities. Their sum is 1 minus the probability of a subset without any answer.
    """
    wins = _wins(tuple(sorted(counts)), num_silent, k)
    return [wins[own] for own in counts]


@functools.cache
def _wins(counts: tuple[int, ...], num_silent: int, k: int) -> dict[int, float]:
    """Probability to win by number of paths; answers with equal numbers win equally often."""
    subsets = math.comb(sum(counts) + num_silent, k)
    paths, wins = Counter(counts), {}
    for own in paths:
        rivals = [*(paths - Counter([own])).elements()]
        wins[own] = _share_of_wins(own, rivals, num_silent=num_silent, k=k) / subsets
    return wins


def _normalised(answer: str | None) -> str | None:
    return "".join(answer.split()) if answer is not None else None


def _share_of_wins(own: int, rivals: Sequence[int], *, num_silent: int, k: int) -> float:
    """Number of k-subsets that an answer with ``own`` paths wins; a tie of t counts 1 / t."""
    wins = 0.0
    for lead in range(1, min(own, k) + 1):
        ways = _ways_below(lead, rivals, num_silent=num_silent, size=k - lead)
        shared = sum(row[k - lead] / (1 + ties) for ties, row in enumerate(ways))
        wins += math.comb(own, lead) * shared
    return wins


def _ways_below(lead: int, rivals: Sequence[int], *, num_silent: int, size: int) -> Ways:
    """Ways to take up to ``size`` other paths such that no rival exceeds ``lead`` votes."""
    # Rivals that cannot reach the lead are equivalent to silent paths.
    free = num_silent + sum(count for count in rivals if count < lead)
    ways = [[math.comb(free, used) for used in range(size + 1)]]
    for count in rivals:
        if count >= lead:
            ways = _with_rival(ways, count, lead=lead)
    return ways


def _with_rival(ways: Ways, count: int, *, lead: int) -> Ways:
    """Extend ``ways`` by a rival with ``count`` >= ``lead`` paths, of which 0 to lead are taken."""
    size = len(ways[0]) - 1
    extended = [[0] * (size + 1) for _ in range(len(ways) + 1)]
    for ties, row in enumerate(ways):
        for taken in range(min(lead, size) + 1):
            target = extended[ties + (taken == lead)]
            factor = math.comb(count, taken)
            for used in range(size + 1 - taken):
                target[used + taken] += factor * row[used]
    # A tie takes `lead` paths, so rows beyond size / lead are all zero.
    return extended[: size // lead + 1]
