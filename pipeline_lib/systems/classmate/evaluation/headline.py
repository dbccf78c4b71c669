"""Headline sentences of an evaluation; missing scores and a null result come first.

A gain counts only against every control, plain training and a blind bonus, and after a correction for the number
of measures.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from pipeline_lib.study.pages.wording import difference, percent
from pipeline_lib.study.statistics.paired import DifferenceFinding, PairedDifference
from pipeline_lib.systems.classmate.evaluation.figures import MEAN, PolicyComparison

_MOST_MISSING = 0.01
"""Part of a peer's continuations, or of a policy's paths, without a score up to which there is a finding."""

Pick = Callable[[PolicyComparison], PairedDifference | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Measures in which the last policy gains against every control."""

    accuracy: bool
    training: tuple[str, ...]
    """Peers of the training that succeed more often from right paths."""
    held_out: tuple[str, ...]
    """The same of peers that no training asked."""

    @property
    def is_null(self) -> bool:
        """True if neither the accuracy gains nor a peer that the training did not ask."""
        return not self.accuracy and not self.held_out


def find(
    against: Sequence[PolicyComparison], peers: Sequence[str], held_out: Collection[str]
) -> Findings:
    """The findings from the comparisons with each control.

    Accuracy and the held-out peers are one family of tests, the peers of the training another; each is corrected
    by Holm's method.
    """
    apart = [peer for peer in peers if peer in held_out]
    asked = [peer for peer in peers if peer not in held_out]
    family = {"": _accuracy} | {peer: right_success(peer) for peer in apart}
    gained = _gained(against, family)
    used = _gained(against, {peer: right_success(peer) for peer in asked})
    return Findings(
        accuracy="" in gained,
        training=tuple(peer for peer in asked if peer in used),
        held_out=tuple(peer for peer in apart if peer in gained),
    )


def _gained(against: Sequence[PolicyComparison], picks: Mapping[str, Pick]) -> set[str]:
    """Names of the measures with a gain over every control, by Holm's method over the measures."""
    p_values = {
        name: max(one.p_value for one in known)
        for name, pick in picks.items()
        for found in [[pick(comparison) for comparison in against]]
        for known in [[one for one in found if one is not None]]
        if len(known) == len(found) and all(one.finding is DifferenceFinding.GAIN for one in known)
    }
    alpha = 1 - against[0].pass_at[1].interval.level
    gained: set[str] = set()
    for name in sorted(p_values, key=lambda name: p_values[name]):
        if p_values[name] > alpha / (len(picks) - len(gained)):
            break
        gained.add(name)
    return gained


def headline(
    against: Sequence[PolicyComparison],
    failed: Mapping[str, float],
    held_out: Collection[str],
    *,
    unscored: Mapping[str, float],
    is_blind: bool,
) -> list[str]:
    """The finding, then its figures; no finding where more than 1 % of a peer's or a policy's scores are missing.

    Args:
        against: the policy in question minus each control.
        failed: part of the continuations without a score, of each peer.
        held_out: names of those that no training asked.
        unscored: part of the paths without a score, of each policy.
        is_blind: the policy in question was trained with the blind bonus.
    """
    peers = [*failed]
    picks = {"accuracy": _accuracy} | {
        f"success of {peer} ({'held out' if peer in held_out else 'training'}) from right paths": (
            right_success(peer)
        )
        for peer in peers
    }
    figures = [_figures(one, picks) for one in against]
    missing = [
        f"{percent(share)} of the {what} of {name}"
        for what, shares in (("paths", unscored), ("continuations", failed))
        for name, share in shares.items()
        if share > _MOST_MISSING
    ]
    if missing:
        return [f"No finding: {_names(missing)} have no score.", *figures]
    found = find(against, peers, held_out)
    sentences = [
        _finding(found, _names([one.reference for one in against])),
        "Each policy is one training: the intervals are over problems, and say nothing of other seeds.",
    ]
    if is_blind:
        sentences.append(
            "This policy was trained with the blind bonus: what it gains, any steady preference gains."
        )
    elif len(against) == 1 and not found.is_null:
        sentences.append(
            f"It was compared with {against[0].reference} alone: a gain counts only beside both plain training and "
            "a blind bonus."
        )
    return [*sentences, *figures]


def _finding(found: Findings, controls: str) -> str:
    if found.is_null and not found.training:
        return f"Null result: neither accuracy nor the success of any peer is above that of {controls}."
    if found.is_null:
        return (
            "Null result beyond the peers of the training: neither accuracy nor the success of a peer "
            f"that it did not ask is above that of {controls}; that of {_names(found.training)} is."
        )
    gained = [
        *(["accuracy"] if found.accuracy else []),
        *(f"the success of {peer}, which the training did not ask," for peer in found.held_out),
        *(f"the success of {peer}" for peer in found.training),
    ]
    missing = "" if found.accuracy else "; accuracy is not"
    return f"Above {controls}: {_names(gained)}{missing}."


def _figures(one: PolicyComparison, picks: Mapping[str, Pick]) -> str:
    known = {name: found for name, pick in picks.items() if (found := pick(one)) is not None}
    parts = [f"{name} {difference(found.interval)}" for name, found in known.items()]
    return f"{one.policy} minus {one.reference}, in points: {'; '.join(parts)}."


def _accuracy(one: PolicyComparison) -> PairedDifference | None:
    return one.pass_at[1]


def right_success(peer: str) -> Pick:
    """The difference of a peer's success from right paths, over all shares."""
    return lambda one: one.success[peer][MEAN]["right"]


def _names(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
