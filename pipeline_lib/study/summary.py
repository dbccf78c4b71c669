"""Scores of one policy from its judged groups.

Deterministic in the groups, the params and the seed. `comparison` compares two summaries.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.records import FinishReason, Group, Interval
from pipeline_lib.seeding import child_seed
from pipeline_lib.study.statistics.intervals import score_interval, wilson_interval
from pipeline_lib.study.statistics.majority import Vote, majority_at_k
from pipeline_lib.study.statistics.pass_at_k import pass_at_k
from pipeline_lib.verdicts import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemScore:
    """Counts over the scored paths of one problem, without failed requests and verifications."""

    problem_id: str
    num_scored: int
    num_strict: int
    num_lenient: int
    first_strict: bool
    """The first scored path is right (single-sample score)."""
    majority: float | None
    """maj@max(ks) by the lenient score; None for kinds whose answers cannot be voted on."""

    def pass_at(self, k: int, *, strict: bool) -> float:
        """pass@k by the strict or the lenient score."""
        return pass_at_k(self.num_scored, self.num_strict if strict else self.num_lenient, k)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalSummary:
    """Scores of one policy on the held-out problems. Fractions are in [0, 1]."""

    ks: tuple[int, ...]
    strict: Mapping[int, Interval]
    """pass@k by k."""
    lenient: Mapping[int, Interval]
    curve: Mapping[int, Interval]
    """Strict pass@k at every power of two up to max(ks), and at ks."""
    majority: Interval | None
    """maj@max(ks) over problems of votable kinds."""
    single: Interval
    """Strict accuracy of one path per problem, with Wilson's interval."""
    truncated_fraction: float
    mean_completion_tokens: float
    prompt_tokens: int
    completion_tokens: int
    statuses: Mapping[Status, int]
    num_paths: int
    num_unscored: int
    """Paths whose request or verification failed."""
    unscored: Mapping[str, int]
    """These by reason."""
    num_problems: int
    num_left_out: int
    """Problems with fewer than max(ks) scored paths, excluded from all scores."""
    problems: tuple[ProblemScore, ...]


def evaluate_groups(groups: Sequence[Group], params: EvaluateParams, *, seed: int) -> EvalSummary:
    """Summarise the judged paths of one policy.

    Args:
        groups: one group per problem, with all requested paths.
        params: ks, resamples and confidence_level.
        seed: seed of the bootstrap.

    Raises:
        BadInputError: a problem has two groups, or none has max(ks) scored paths.
    """
    max_k = max(params.ks)
    _check_unique(groups)
    scores = [_problem_score(group, max_k) for group in groups if len(group.scored()) >= max_k]
    if not scores:
        raise BadInputError(
            f"none of {len(groups)} problems has the {max_k} scored paths that pass@{max_k} needs; "
            "draw more paths, or look at the verifier's failures"
        )

    def intervals(ks: Sequence[int], name: str, *, strict: bool) -> dict[int, Interval]:
        return {
            k: _interval([s.pass_at(k, strict=strict) for s in scores], params, seed, f"{name}@{k}")
            for k in ks
        }

    majorities = [score.majority for score in scores if score.majority is not None]
    num_first = sum(score.first_strict for score in scores)
    paths = [member.path for group in groups for member in group.members]
    drawn = [path for path in paths if path.finish_reason is not FinishReason.ERROR]
    truncated = sum(path.finish_reason is FinishReason.LENGTH for path in drawn)
    completion_tokens = sum(path.completion_tokens for path in drawn)
    return EvalSummary(
        ks=params.ks,
        strict=intervals(params.ks, "strict", strict=True),
        lenient=intervals(params.ks, "lenient", strict=False),
        curve=intervals(_curve_ks(params.ks), "strict", strict=True),
        majority=_interval(majorities, params, seed, "majority") if majorities else None,
        single=wilson_interval(num_first, len(scores), level=params.confidence_level),
        truncated_fraction=truncated / len(drawn),
        mean_completion_tokens=completion_tokens / len(drawn),
        prompt_tokens=sum(path.prompt_tokens for path in drawn),
        completion_tokens=completion_tokens,
        statuses=_statuses(groups),
        unscored=_unscored(groups),
        num_paths=len(paths),
        num_unscored=len(paths) - sum(len(group.scored()) for group in groups),
        num_problems=len(scores),
        num_left_out=len(groups) - len(scores),
        problems=tuple(scores),
    )


def _check_unique(groups: Sequence[Group]) -> None:
    counts = Counter(group.problem.id for group in groups)
    if twice := sorted(problem_id for problem_id, count in counts.items() if count > 1):
        raise BadInputError(
            f"problem {twice[0]!r} has {counts[twice[0]]} groups; give each problem's paths as one"
        )


def _problem_score(group: Group, max_k: int) -> ProblemScore:
    scored = sorted(group.scored(), key=lambda member: member.path.index)
    votes = [
        Vote(answer=member.verdict.extracted, correct=bool(member.verdict.lenient))
        for member in scored
    ]
    return ProblemScore(
        problem_id=group.problem.id,
        num_scored=len(scored),
        num_strict=group.num_correct(strict=True),
        num_lenient=group.num_correct(strict=False),
        first_strict=bool(scored[0].verdict.strict),
        majority=majority_at_k(votes, max_k) if group.problem.kind.votable else None,
    )


def _interval(values: Sequence[float], params: EvaluateParams, seed: int, name: str) -> Interval:
    return score_interval(np.array(values), params, seed=child_seed(seed, "interval", name))


def _unscored(groups: Sequence[Group]) -> dict[str, int]:
    reasons = (member.verdict.reason for group in groups for member in group.members)
    return dict(Counter(reason for reason in reasons if reason is not None).most_common())


def _curve_ks(ks: Sequence[int]) -> list[int]:
    powers = {2**exponent for exponent in range(max(ks).bit_length()) if 2**exponent <= max(ks)}
    return sorted(powers | set(ks))


def _statuses(groups: Sequence[Group]) -> dict[Status, int]:
    counts = Counter(member.verdict.status for group in groups for member in group.members)
    return {status: counts[status] for status in Status}
