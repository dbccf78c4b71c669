"""Success of peers on prefixes: by problem, its spread among right prefixes, and its missing part."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean

import numpy as np

from pipeline_lib.systems.classmate.evaluation.continuations import Scores
from pipeline_lib.systems.classmate.evaluation.prefixes import Asked, CutPath


def problem_means(
    paths: Iterable[CutPath], peer: str, shares: Sequence[float], scores: Scores
) -> dict[str, float]:
    """Mean success of ``peer`` by problem, over the prefixes of its paths at ``shares``.

    Continuations without a score are left out; so are problems without any.
    """
    found: dict[str, list[float]] = defaultdict(list)
    for path in paths:
        for share in shares:
            known = known_scores(scores, peer, Asked(path.problem_id, path.prefixes[share].text))
            if known:
                found[path.problem_id].append(fmean(known))
    return {name: fmean(values) for name, values in found.items()}


def known_scores(scores: Scores, peer: str, asked: Asked) -> list[float]:
    """Scores of the continuations of a prefix, without those that are missing."""
    return [float(score) for score in scores.get((peer, asked), ()) if score is not None]


def right_spread(
    paths: Iterable[CutPath], peer: str, share: float, scores: Scores
) -> dict[str, float] | None:
    """True deviation, ``sd``, of success among the distinct right prefixes of a problem; None without two.

    A prefix is right if a path that begins with it is. With halves a and b of the continuations of a prefix,
    noise of the draws is independent, so the covariance of their means is the variance of true success.
    ``mean`` is the mean success, ``problems`` their number.
    """
    halves: dict[str, dict[str, tuple[float, float]]] = defaultdict(dict)
    for path in paths:
        text = path.prefixes[share].text
        known = known_scores(scores, peer, Asked(path.problem_id, text))
        if path.right and len(known) > 1:
            middle = len(known) // 2
            halves[path.problem_id][text] = fmean(known[:middle]), fmean(known[middle:])
    groups = [np.array([*group.values()]) for group in halves.values() if len(group) > 1]
    if not groups:
        return None
    covariance = fmean(float(np.cov(group_2.T)[0, 1]) for group_2 in groups)
    return {
        "sd": max(0.0, covariance) ** 0.5,
        "mean": fmean(float(group.mean()) for group in groups),
        "problems": len(groups),
    }


def failed_share(scores: Scores, peer: str) -> float:
    """Part of the continuations of ``peer`` without a score."""
    values = [score for (name, _), known in scores.items() if name == peer for score in known]
    return fmean(score is None for score in values) if values else 0.0
