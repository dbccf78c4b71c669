"""Consensus of several answers to one question, by votes or by the best score; no gold, no verdict."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pipeline_lib.study.selection import borda_weights, elect


class Method(StrEnum):
    """Rule of a consensus."""

    MAJORITY = "majority"
    """One vote per answer."""
    WEIGHTED = "weighted"
    """Votes weighted by score."""
    BORDA = "borda"
    """Votes weighted by the rank of the score."""
    BEST = "best"
    """The answer with the best score."""


NEEDS_SCORES = frozenset(Method) - {Method.MAJORITY}


@dataclass(frozen=True, slots=True, kw_only=True)
class Elected:
    """The chosen answer among those of one question."""

    place: int
    """Of the first text with the chosen answer, or of the text with the best score."""
    votes: int
    """Texts with the same answer, itself included; 0 if it has none."""
    tied: bool
    """Another answer was as good; the earliest was taken."""


def decide(
    answers: Sequence[int | None],
    scores: Sequence[float] | None,
    method: Method,
    *,
    borda_power: float,
) -> Elected:
    """The consensus of at least one answer.

    Args:
        answers: Number of each text's answer among the distinct answers; None without an answer, which
            has no vote.
        scores: Larger is better, not negative for WEIGHTED; None for MAJORITY.
        method: The rule.
        borda_power: Rank r of n has (n - r + 1)^power votes.
    """
    if method is Method.BEST:
        assert scores is not None
        best = max(scores)
        leaders = [place for place, score in enumerate(scores) if score == best]
    else:
        chances = elect(answers, _weights(answers, scores, method, borda_power=borda_power))
        leaders = [place for place, chance in enumerate(chances) if chance > 0]
    chosen = answers[leaders[0]]
    return Elected(
        place=leaders[0],
        votes=0 if chosen is None else sum(answer == chosen for answer in answers),
        tied=len({answers[place] for place in leaders}) > 1,
    )


def _weights(
    answers: Sequence[int | None],
    scores: Sequence[float] | None,
    method: Method,
    *,
    borda_power: float,
) -> Sequence[float]:
    if method is Method.MAJORITY:
        return [1.0] * len(answers)
    assert scores is not None
    return scores if method is Method.WEIGHTED else borda_weights(scores, power=borda_power)


def probability_per_token(logprob: float, tokens: int) -> float:
    """Geometric mean of the tokens' probabilities: a score in (0, 1]."""
    return math.exp(logprob / max(tokens, 1))
