"""Judged paths of policies as series: pass@k, maj@k, accuracy of one path; and the contrasts of two policies.

Deterministic in the groups, the params and the seed.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Self

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.records import FinishReason, Group, JudgedPath
from pipeline_lib.study.attempts import MAIN, Cost
from pipeline_lib.study.headline import claims_of
from pipeline_lib.study.pages.tables import Table
from pipeline_lib.study.pages.wording import percent
from pipeline_lib.study.selection import mean_longest
from pipeline_lib.study.statistics.majority import Vote, majority_at_k
from pipeline_lib.study.statistics.pass_at_k import pass_at_k
from pipeline_lib.study.study import ALL, Arm, Contrast, Series, Study, make_study

LENIENT = "lenient"
FORMAT = "format share"
ACCURACY = "accuracy"


@dataclass(frozen=True, slots=True, kw_only=True)
class PathCounts:
    """The paths of a policy by their fate."""

    paths: int
    unscored: int
    """Paths whose request or verification failed."""
    reasons: Mapping[str, int]
    """These by reason."""
    statuses: Mapping[str, int]
    """All paths by status of their verdict."""
    truncated: float
    """Share of the drawn paths that reached the limit of tokens."""
    mean_tokens: float
    """Drawn tokens of a path."""
    prompt_tokens: int
    completion_tokens: int
    left_out: int
    """Problems with fewer scored paths than the largest k."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyScores:
    """The series of one policy, and the counts of its paths."""

    arm: Arm
    series: tuple[Series, ...]
    counts: PathCounts

    def find(self, measure: str, subset: str = ALL) -> Series:
        """The series of one measure; KeyError: there is none."""
        for one in self.series:
            if (one.measure, one.subset) == (measure, subset):
                return one
        raise KeyError((measure, subset))


def score_policy(
    arm: Arm, groups: Sequence[Group], params: EvaluateParams, *, set_name: str = MAIN
) -> PolicyScores:
    """The scores of a policy over the problems with as many scored paths as the largest k.

    Failed requests and verifications are in no score.

    Args:
        arm: the policy.
        groups: one per problem, with all requested paths.
        params: ks.
        set_name: of the problems.

    Raises:
        BadInputError: a problem has two groups, or none has enough scored paths.
    """
    max_k = max(params.ks)
    _check_unique(groups)
    scored = {group.problem.id: group.scored() for group in groups if len(group.scored()) >= max_k}
    if not scored:
        raise BadInputError(
            f"none of {len(groups)} problems has the {max_k} scored paths that pass@{max_k} needs; "
            "draw more paths, or look at the verifier's failures"
        )
    votable = {group.problem.id for group in groups if group.problem.kind.votable}
    return PolicyScores(
        arm=arm,
        series=tuple(replace(one, set=set_name) for one in _series(arm, scored, votable, params)),
        counts=_counts(groups, num_left_out=len(groups) - len(scored)),
    )


Scored = Mapping[str, Sequence[JudgedPath]]


def _series(
    arm: Arm, scored: Scored, votable: set[str], params: EvaluateParams
) -> Iterator[Series]:
    for k in curve_ks(params.ks):
        yield pass_series(arm, scored, k, strict=True)
    for k in params.ks:
        yield pass_series(arm, scored, k, strict=False)
    max_k = max(params.ks)
    if votes := {name: paths for name, paths in scored.items() if name in votable}:
        yield majority_series(arm, votes, max_k, seed_names=("interval", "majority"))
    yield Series(
        arm=arm,
        measure=ACCURACY,
        values={name: float(bool(_first(paths).verdict.strict)) for name, paths in scored.items()},
        costs={name: path_cost([_first(paths)], 1) for name, paths in scored.items()},
        is_binomial=True,
    )


def vote_series(arm: Arm, scores: PolicyScores, groups: Sequence[Group]) -> list[Series]:
    """The accuracy of votes of 2, 4, ... paths of a policy, as arms of their own."""
    problems = scores.find("pass@1").values
    scored = {
        group.problem.id: group.scored()
        for group in groups
        if group.problem.id in problems and group.problem.kind.votable
    }
    most = min(map(len, scored.values()), default=0)
    found = []
    for k in (2**power for power in range(1, most.bit_length())):
        voter = Arm(
            base="vote",
            settings={**arm.settings, "of": arm.base, "paths": k},
            seen=arm.seen,
            trained_tokens=arm.trained_tokens,
        )
        names = ("interval", "vote", arm.base, k)
        found.append(majority_series(voter, scored, k, seed_names=names, measure=ACCURACY))
    return found


def pass_series(arm: Arm, scored: Scored, k: int, *, strict: bool) -> Series:
    """pass@k of problems with at least ``k`` scored paths, by the strict or the lenient score."""
    name = "strict" if strict else LENIENT
    return Series(
        arm=arm,
        measure=f"pass@{k}",
        subset=ALL if strict else LENIENT,
        values={
            problem: pass_at_k(len(paths), sum(one.is_right(strict=strict) for one in paths), k)
            for problem, paths in scored.items()
        },
        costs={problem: path_cost(paths, k) for problem, paths in scored.items()},
        seed_names=("interval", f"{name}@{k}"),
    )


def majority_series(
    arm: Arm,
    scored: Scored,
    k: int,
    *,
    seed_names: tuple[str | int, ...],
    measure: str | None = None,
) -> Series:
    """maj@k of problems with at least ``k`` scored paths."""
    return Series(
        arm=arm,
        measure=measure or f"maj@{k}",
        values={problem: majority_at_k(_votes(paths), k) for problem, paths in scored.items()},
        costs={problem: path_cost(paths, k) for problem, paths in scored.items()},
        seed_names=seed_names,
    )


def _votes(paths: Sequence[JudgedPath]) -> list[Vote]:
    ordered = sorted(paths, key=lambda member: member.path.index)
    return [
        Vote(answer=one.verdict.extracted, correct=bool(one.verdict.lenient)) for one in ordered
    ]


def _first(paths: Sequence[JudgedPath]) -> JudgedPath:
    return min(paths, key=lambda member: member.path.index)


def path_cost(paths: Sequence[JudgedPath], k: int) -> Cost:
    """Expected cost of ``k`` of the paths of a problem, drawn from one prompt in parallel."""
    tokens = [one.path.completion_tokens for one in paths]
    prompt = paths[0].path.prompt_tokens
    critical = mean_longest(tokens, k)
    return Cost(
        drawn=k * math.fsum(tokens) / len(tokens),
        prompt=prompt,
        critical=critical,
        longest=prompt + critical,
    )


def policy_contrasts(
    candidate: PolicyScores, reference: PolicyScores, ks: Sequence[int]
) -> list[Contrast]:
    """``candidate`` minus ``reference``: pass@k by both scores, and the part of pass@1 that is due to format.

    The format share is the strict minus the lenient difference.
    """
    found = [
        Contrast(
            candidate=candidate.find(f"pass@{k}", subset),
            reference=reference.find(f"pass@{k}", subset),
            seed_names=("difference", f"{name}@{k}"),
            sorts=True,
        )
        for subset, name in ((ALL, "strict"), (LENIENT, LENIENT))
        for k in ks
    ]
    share = Contrast(
        candidate=_format_effect(candidate),
        reference=_format_effect(reference),
        seed_names=("difference", "format"),
        sorts=True,
    )
    return [*found, share]


def _format_effect(scores: PolicyScores) -> Series:
    """Strict minus lenient pass@1: what errors of format cost, at most zero."""
    strict, lenient = scores.find("pass@1"), scores.find("pass@1", LENIENT)
    return Series(
        arm=scores.arm,
        measure="pass@1",
        subset=FORMAT,
        set=strict.set,
        values={name: value - lenient.values[name] for name, value in strict.values.items()},
    )


def ks_of(study: Study) -> tuple[int, ...]:
    """The ks of the params: the strict score has further ones, the lenient score none."""
    measures = {one.measure for one in study.points if one.subset == LENIENT}
    return tuple(sorted(int(measure.removeprefix("pass@")) for measure in measures))


def curve_ks(ks: Sequence[int]) -> list[int]:
    """``ks`` and the powers of two up to the largest."""
    powers = {2**exponent for exponent in range(max(ks).bit_length()) if 2**exponent <= max(ks)}
    return sorted(powers | set(ks))


def _check_unique(groups: Sequence[Group]) -> None:
    counts = Counter(group.problem.id for group in groups)
    if twice := sorted(problem_id for problem_id, count in counts.items() if count > 1):
        raise BadInputError(
            f"problem {twice[0]!r} has {counts[twice[0]]} groups; give each problem's paths as one"
        )


def _counts(groups: Sequence[Group], *, num_left_out: int) -> PathCounts:
    members = [member for group in groups for member in group.members]
    drawn = [one.path for one in members if one.path.finish_reason is not FinishReason.ERROR]
    reasons = Counter(reason for one in members if (reason := one.verdict.reason) is not None)
    completion_tokens = sum(path.completion_tokens for path in drawn)
    truncated = sum(path.finish_reason is FinishReason.LENGTH for path in drawn)
    return PathCounts(
        paths=len(members),
        unscored=len(members) - sum(len(group.scored()) for group in groups),
        reasons=dict(reasons.most_common()),
        statuses=dict(Counter(one.verdict.status.value for one in members)),
        truncated=truncated / len(drawn),
        mean_tokens=completion_tokens / len(drawn),
        prompt_tokens=sum(path.prompt_tokens for path in drawn),
        completion_tokens=completion_tokens,
        left_out=num_left_out,
    )


Flip = tuple[str, float, float]
"""Id of a problem, and its pass@1 before and after."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flips:
    """Problems whose pass@1 crossed one half, the largest change first; one half itself is on neither side."""

    gained: tuple[Flip, ...]
    lost: tuple[Flip, ...]

    @classmethod
    def between(cls, reference: Mapping[str, float], candidate: Mapping[str, float]) -> Self:
        """The flips from ``reference`` to ``candidate``, pass@1 by problem, on the problems of both."""
        flips = [
            (name, reference[name], candidate[name])
            for name in sorted(reference.keys() & candidate.keys())
        ]
        flips.sort(key=lambda flip: -abs(flip[2] - flip[1]))
        return cls(
            gained=tuple(flip for flip in flips if flip[1] < 0.5 < flip[2]),
            lost=tuple(flip for flip in flips if flip[2] < 0.5 < flip[1]),
        )

    def table(self, *, limit: int) -> Table:
        """At most ``limit`` problems in each direction."""
        shown = {"gained": self.gained[:limit], "lost": self.lost[:limit]}
        return Table(
            caption=f"Problems that crossed one half: {len(self.gained)} gained, {len(self.lost)} lost",
            columns=("problem", "change", "before", "after"),
            rows=tuple(
                (name, direction, percent(before), percent(after))
                for direction, flips in shown.items()
                for name, before, after in flips
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A study of one policy, or of two on the same problems, with the scores behind it."""

    study: Study
    scores: tuple[PolicyScores, ...]
    """The reference first, if there is one."""

    @property
    def flips(self) -> Flips:
        """Problems that the second policy gained and lost."""
        reference, candidate = (one.find("pass@1").values for one in self.scores)
        return Flips.between(reference, candidate)


def compare_groups(
    policies: Mapping[str, Sequence[Group]], params: EvaluateParams, *, seed: int
) -> Compared:
    """Scores of one policy, or of a reference and a candidate, without a run around them.

    Args:
        policies: judged paths by name of the arm.
        params: ks, resamples, confidence_level.
        seed: root seed of the intervals.

    Raises:
        BadInputError: see :func:`score_policy`; or the two share no problem.
    """
    scores = [score_policy(Arm(base=name), groups, params) for name, groups in policies.items()]
    ks = sorted(params.ks)
    pairs = list(itertools.pairwise(scores))
    study = make_study(
        "loop",
        [series for one in scores for series in one.series],
        [one for before, after in pairs for one in policy_contrasts(after, before, ks)],
        evaluate=params,
        seed=seed,
        provenance={},
        left_out={
            f"{one.arm.base}: fewer scored paths than the largest k": one.counts.left_out
            for one in scores
        },
        compute={"policies": {one.arm.base: asdict(one.counts) for one in scores}},
    )
    if pairs and study.headline is None:
        raise BadInputError("the policies share no problem; evaluate both on the same split")
    return Compared(study=study.with_claims(claims_of(study)), scores=tuple(scores))
