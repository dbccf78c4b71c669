"""The study of Classmate: pass@k of policies, and success of the peers that continue prefixes of their paths.

Success of a peer is averaged over the prefixes of a problem, then over problems. Success over right paths
separates use from correctness, but each policy chose its own right paths, so a difference over them is taken on
the problems where both have some.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import fmean
from typing import Any

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.records import Group
from pipeline_lib.study.attempts import Attempt
from pipeline_lib.study.policies import majority_series, pass_series, path_cost
from pipeline_lib.study.study import (
    ALL,
    Arm,
    Contrast,
    Series,
    Setting,
    Study,
    make_study,
)
from pipeline_lib.systems.classmate.peer import HELD_OUT, TRAINING
from pipeline_lib.systems.classmate.prefixes import (
    EMPTY,
    CutPath,
    Scores,
    failed_share,
    known_scores,
    problem_means,
    right_spread,
    shuffled,
)

RIGHT = "right paths"
SUBSETS: Mapping[str, Callable[[CutPath], bool]] = {
    ALL: lambda _path: True,
    RIGHT: lambda path: path.right,
    "wrong paths": lambda path: not path.right,
}
"""Paths whose prefixes are averaged."""
_TESTED = (HELD_OUT, TRAINING, "pass@1")
"""Measures that a gain can be claimed in; success is over right paths and all shares."""
_BASES = {"classmate": "peers", "shuffled": "shuffled bonus"}
Shares = tuple[float, ...]


def base_name(policy: str) -> str:
    """Base name of the arm of a policy."""
    return _BASES.get(policy, policy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The judged paths of one policy."""

    name: str
    """As given: seeds depend on it."""
    groups: Sequence[Group]
    paths: Sequence[CutPath]
    seen: frozenset[str] = frozenset()
    """Ids of evaluated problems that its training saw."""
    training: Mapping[str, float | None] = field(default_factory=dict)
    """Steps, token passes and steps to an accuracy of its training."""

    def arm(self, **settings: Setting) -> Arm:
        """Its arm."""
        return Arm(base=base_name(self.name), settings=settings, seen=self.seen)

    @property
    def unscored(self) -> float:
        """Part of its paths without a score."""
        drawn = [member for group in self.groups for member in group.members]
        return fmean(member.verdict.lenient is None for member in drawn)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Paths of all policies, and success of peers on their prefixes."""

    policies: Sequence[Policy]
    """The start first, the one in question last."""
    controls: Collection[str]
    """Names of the policies that a gain of the last one counts against."""
    peers: Mapping[str, str]
    """By name of a peer: `HELD_OUT` or `TRAINING`."""
    scores: Scores
    keep: Shares
    headline: str = HELD_OUT
    """Measure of the headline difference."""
    against: str | None = None
    """Policy that it is taken to; None: plain training, else the first control."""

    @property
    def ordered_controls(self) -> list[str]:
        """Names of the controls, plain training first."""
        found = [one.name for one in self.policies if one.name in self.controls]
        return sorted(found, key=lambda name: name != "plain")

    @property
    def reference(self) -> str:
        """The policy that the headline difference is taken to."""
        return self.against or self.ordered_controls[0]


def classmate_study(
    judged: Judged,
    evaluate: EvaluateParams,
    *,
    seed: int,
    provenance: Mapping[str, str | None],
    draws_without_peers: int | None,
) -> tuple[Study, list[Series], list[Attempt]]:
    """The study, and what it was made from.

    ``draws_without_peers`` are draws of the training of the last policy in which no peer gave a score, None if unknown.

    Raises:
        BadInputError: no problem has the scored paths that pass@k needs.
    """
    own = {one.name: policy_series(one, judged, evaluate.ks) for one in judged.policies}
    series = [*(one for found in own.values() for one in found), *_control_series(judged)]
    largest = max(evaluate.ks)
    study = make_study(
        "classmate",
        series,
        contrasts(judged, own),
        evaluate=evaluate,
        seed=seed,
        provenance=provenance,
        left_out={
            f"{base_name(one.name)}: fewer than {largest} scored paths": sum(
                len(group.scored()) < largest for group in one.groups
            )
            for one in judged.policies
        },
        compute={**_compute(judged), "draws_without_peers": draws_without_peers},
    )
    return study, series, [*path_attempts(judged)]


def policy_series(policy: Policy, judged: Judged, ks: Sequence[int]) -> list[Series]:
    """pass@k and maj@k, then success of each peer by share and subset; in the same order for every policy."""
    return [*_pass_series(policy, ks), *_success_series(policy, judged)]


def _pass_series(policy: Policy, ks: Sequence[int]) -> Iterator[Series]:
    most = max(ks)
    scored = {group.problem.id: group.scored() for group in policy.groups}
    enough = {name: paths for name, paths in scored.items() if len(paths) >= most}
    if not enough:
        raise BadInputError(
            f"{policy.name}: none of {len(scored)} problems has the {most} scored paths that pass@{most} needs; "
            "draw more paths, or look at the verifier's failures"
        )
    for k in ks:
        yield pass_series(policy.arm(), enough, k, strict=True)
    votable = all(group.problem.kind.votable for group in policy.groups)
    for k in ks if votable else ():
        if k > 1:
            names = ("interval", "majority", k)
            yield majority_series(policy.arm(), enough, k, seed_names=names)


def _success_series(policy: Policy, judged: Judged) -> Iterator[Series]:
    for peer, measure in judged.peers.items():
        for settings, shares in _labelled(judged.keep):
            for subset, belongs in SUBSETS.items():
                own = [path for path in policy.paths if belongs(path)]
                yield Series(
                    arm=policy.arm(peer=peer, **settings),
                    measure=measure,
                    subset=subset,
                    values=problem_means(own, peer, shares, judged.scores),
                    seed_names=("classmate", peer, subset.partition(" ")[0]),
                )


def _labelled(keep: Shares) -> list[tuple[dict[str, float], Shares]]:
    """All shares together, then each alone where there are several; with the settings of the arm."""
    alone = [({"share": share}, (share,)) for share in keep]
    return [({}, keep), *(alone if len(keep) > 1 else [])]


def _control_series(judged: Judged) -> Iterator[Series]:
    """Success after a prefix of another problem, and without a prefix."""
    for peer, measure in judged.peers.items():
        for policy in judged.policies:
            moved = shuffled(policy.paths)
            for settings, shares in _labelled(judged.keep):
                arm = policy.arm()
                yield Series(
                    arm=Arm(
                        base="shuffled",
                        settings={"of": arm.base, "peer": peer, **settings},
                        seen=arm.seen,
                    ),
                    measure=measure,
                    values=problem_means(moved, peer, shares, judged.scores),
                    seed_names=("classmate", peer, "shuffled"),
                )
        asked = [(group.problem.id, EMPTY) for group in judged.policies[0].groups]
        known = {one[0]: known_scores(judged.scores, peer, one) for one in asked}
        yield Series(
            arm=Arm(base="empty", settings={"peer": peer}),
            measure=measure,
            values={name: fmean(found) for name, found in known.items() if found},
            seed_names=("classmate", peer, "empty"),
        )


def contrasts(judged: Judged, own: Mapping[str, Sequence[Series]]) -> list[Contrast]:
    """Each policy minus each one before it; first the headline difference. ``own`` is by policy."""
    last, controls = judged.policies[-1].name, judged.ordered_controls
    found = []

    def order(two: tuple[Series, Series]) -> tuple[bool, bool, int]:
        rank = _rank(two)
        return rank == len(_TESTED), two[0].measure != judged.headline, rank

    for pair in sorted(combinations(own, 2), key=lambda pair: pair != (judged.reference, last)):
        reference, policy = pair
        counts = policy == last and reference in controls
        for two in sorted(zip(own[policy], own[reference], strict=True), key=order):
            tests = "training peers" if two[0].measure == TRAINING else "gains"
            tested = counts and _rank(two) < len(_TESTED)
            found.append(
                _contrast(*two, pair, family=f"{tests} over {reference}" if tested else None)
            )
    return found


def _rank(series: tuple[Series, Series]) -> int:
    one = series[0]
    is_whole = "share" not in one.arm.settings and one.subset == (
        RIGHT if "peer" in one.arm.settings else ALL
    )
    return _TESTED.index(one.measure) if is_whole and one.measure in _TESTED else len(_TESTED)


def _contrast(
    candidate: Series, reference: Series, pair: tuple[str, str], *, family: str | None
) -> Contrast:
    root, *names = candidate.seed_names
    of_peer = "peer" in candidate.arm.settings
    return Contrast(
        candidate=candidate,
        reference=reference,
        seed_names=(root, "difference", *pair, *names) if of_peer else ("difference", *names),
        sorts=True,
        family=family,
    )


def _compute(judged: Judged) -> dict[str, Any]:
    return {
        "policies": {
            base_name(one.name): {"unscored": one.unscored, **one.training}
            for one in judged.policies
        },
        "peers": {
            peer: {
                "held_out": measure == HELD_OUT,
                "unscored": failed_share(judged.scores, peer),
            }
            for peer, measure in judged.peers.items()
        },
        "prefixes": [
            {
                "arm": base_name(one.name),
                "share": share,
                "kept_steps": fmean(path.prefixes[share].kept for path in one.paths),
                "leak_rate": fmean(path.prefixes[share].leaked for path in one.paths),
                "spread": {
                    peer: right_spread(one.paths, peer, share, judged.scores)
                    for peer in judged.peers
                },
            }
            for one in judged.policies
            for share in judged.keep
        ],
    }


def path_attempts(judged: Judged) -> Iterator[Attempt]:
    """Every judged path; ``extra`` has the success of each peer at each share of it."""
    for policy in judged.policies:
        cut = {(path.problem_id, path.sample): path for path in policy.paths}
        for member in (one for group in policy.groups for one in group.members):
            path, verdict = member.path, member.verdict
            found = cut.get((path.problem_id, path.index))
            yield Attempt(
                problem_id=path.problem_id,
                arm=base_name(policy.name),
                sample=path.index,
                right=verdict.strict,
                lenient=verdict.lenient,
                answer=verdict.extracted,
                cost=path_cost([member], 1),
                extra={} if found is None else _success_of(found, judged),
            )


def _success_of(path: CutPath, judged: Judged) -> dict[str, float]:
    known = {
        f"{peer} share={share:g}": known_scores(judged.scores, peer, (path.problem_id, prefix.text))
        for peer in judged.peers
        for share, prefix in path.prefixes.items()
    }
    return {name: fmean(values) for name, values in known.items() if values}
