"""Prefixes of an evaluation, at every share, empty or of other problems, and the success of peers on them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from pipeline_lib.params.classmate import ClassmateParams
from pipeline_lib.records import Group
from pipeline_lib.systems.classmate.cut import Chain, Prefix, cut_chain, first_leaks, split_steps
from pipeline_lib.verify.dispatch import Verifier

EMPTY = ""


Asked = tuple[str, str]
"""Id of a problem, and a prefix that peers continue for it."""
Scores = Mapping[tuple[str, Asked], Sequence[bool | None]]
"""Of each continuation, by name of the peer and prefix: the strict verdict, None if it was not drawn or judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutPath:
    """A judged path and its prefixes."""

    problem_id: str
    sample: int
    """Index of the path."""
    right: bool
    prefixes: Mapping[float, Prefix]
    """By share of the steps."""


def cut_paths(
    groups: Iterable[Group], params: ClassmateParams, verifier: Verifier
) -> list[CutPath]:
    """The first ``evaluate.paths`` scored paths of each problem, cut at every share of ``keep``."""
    chosen = [
        (group.problem, member)
        for group in groups
        for member in group.scored()[: params.evaluate.paths]
    ]
    chains = [
        Chain(problem=problem, steps=split_steps(member.path.text, params.step))
        for problem, member in chosen
    ]
    return [
        CutPath(
            problem_id=problem.id,
            sample=member.path.index,
            right=bool(member.verdict.strict),
            prefixes={
                share: cut_chain(chain.steps, share=share, first_leak=leak) for share in params.keep
            },
        )
        for (problem, member), chain, leak in zip(
            chosen, chains, first_leaks(chains, verifier), strict=True
        )
    ]


def shuffled(paths: Sequence[CutPath]) -> list[CutPath]:
    """For each problem the first path of the next one, the last followed by the first; none of one problem."""
    first: dict[str, CutPath] = {}
    for path in paths:
        first.setdefault(path.problem_id, path)
    if len(first) < 2:
        return []
    own = [*first.values()]
    return [
        replace(path, problem_id=name)
        for name, path in zip(first, [*own[1:], *own[:1]], strict=True)
    ]


def asked_for(paths: Iterable[CutPath]) -> list[Asked]:
    """Each distinct prefix once, and the empty one of each problem; sorted."""
    paths = list(paths)
    found = {(path.problem_id, EMPTY) for path in paths}
    found |= {(path.problem_id, prefix.text) for path in paths for prefix in path.prefixes.values()}
    return sorted(found)


def problem_means(
    paths: Iterable[CutPath], peer: str, shares: Sequence[float], scores: Scores
) -> dict[str, float]:
    """Mean success of ``peer`` by problem, over the prefixes of its paths at ``shares``.

    Continuations without a score are left out; so are problems without any.
    """
    found: dict[str, list[float]] = defaultdict(list)
    for path in paths:
        for share in shares:
            known = known_scores(scores, peer, (path.problem_id, path.prefixes[share].text))
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
        known = known_scores(scores, peer, (path.problem_id, text))
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
