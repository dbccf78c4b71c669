"""The study of the loop: base, control, policy and baselines at each temperature, votes of the policy."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict

from pipeline_lib.params.whole import Params
from pipeline_lib.records import Group
from pipeline_lib.study.headline import change, claims_of
from pipeline_lib.study.plan import BASE, CONTROL, TRAINED, baselines, folder_name, temperatures
from pipeline_lib.study.policies import (
    LENIENT,
    PolicyScores,
    policy_contrasts,
    score_policy,
    vote_series,
)
from pipeline_lib.study.statistics.intervals import DifferenceFinding
from pipeline_lib.study.study import Arm, Contrast, Series, Study, arm_name, make_study

SYSTEM = "loop"
POLICY = "policy"
_BASES = {BASE: BASE, CONTROL: CONTROL, TRAINED: POLICY}
"""Base names of arms by the names of folders."""


def loop_study(
    params: Params,
    groups: Callable[[str, float], Sequence[Group]],
    *,
    provenance: Mapping[str, str | None],
    seen: Mapping[str, frozenset[str]],
) -> tuple[Study, list[Series]]:
    """The study of every policy at every temperature, and its series; groups of one policy are in memory at a time.

    Args:
        params: of the run.
        groups: judged paths by folder of a policy and temperature.
        provenance: see `Study.provenance`.
        seen: ids of evaluated problems that a training saw, by policy.
    """
    scores: dict[tuple[str, float], PolicyScores] = {}
    votes: list[Series] = []
    for temperature in temperatures(params):
        for policy in _policies(params):
            arm = Arm(
                base=_BASES.get(policy, policy),
                settings={"T": temperature},
                seen=seen.get(policy, frozenset()),
            )
            judged = groups(policy, temperature)
            found = scores[policy, temperature] = score_policy(arm, judged, params.evaluate)
            if policy == TRAINED:
                votes += vote_series(arm, found, judged)
    study = make_study(
        SYSTEM,
        series := [*(series for one in scores.values() for series in one.series), *votes],
        list(_contrasts(params, scores)),
        evaluate=params.evaluate,
        seed=params.seed,
        provenance=provenance,
        left_out={
            f"{policy} at temperature {temperature:g}: too few scored paths": one.counts.left_out
            for (policy, temperature), one in scores.items()
        },
        compute={
            "policies": {
                folder_name(policy, temperature, params): asdict(one.counts)
                for (policy, temperature), one in scores.items()
            }
        },
    )
    claims = loop_claims(study, max_k=max(params.evaluate.ks))
    return study.with_claims(claims), series


def _policies(params: Params) -> Iterator[str]:
    yield BASE
    if params.train.control:
        yield CONTROL
    yield TRAINED
    yield from baselines(params)


def _contrasts(
    params: Params, scores: Mapping[tuple[str, float], PolicyScores]
) -> Iterator[Contrast]:
    """The policy minus its control, the base and the baselines, then the control minus the base, by temperature."""
    ks = sorted(params.evaluate.ks)
    control = [CONTROL] if params.train.control else []
    for temperature in temperatures(params):
        for reference in (*control, BASE, *baselines(params)):
            trained = scores[TRAINED, temperature]
            yield from policy_contrasts(trained, scores[reference, temperature], ks)
        for one in control:
            yield from policy_contrasts(scores[one, temperature], scores[BASE, temperature], ks)


def arm_at(study: Study, base: str, temperature: float) -> str | None:
    """Name of an arm in the file; None if the study has no such arm."""
    return arm_name(study, base, T=temperature)


def loop_claims(study: Study, *, max_k: int) -> Iterator[str]:
    """Sentences: the gain over the control, coverage, the gain over the base and at further temperatures."""
    yield from claims_of(study)
    head = study.headline
    if head is None or (head.of_arm == head.of_reference == 0):
        return
    bases = {one.name: one.base for one in study.arms}
    if bases[head.reference] != CONTROL:
        yield (
            "There was no control (train.control=false), so the part of this difference that more supervised "
            "training alone would give is unknown."
        )
    strict = {
        (one.arm, one.reference, one.measure): one
        for one in study.differences
        if one.subset == "all"
    }
    for (arm, reference, measure), one in strict.items():
        is_coverage = measure == f"pass@{max_k}" and (arm, reference) == (head.arm, head.reference)
        if one is not head and (measure == "pass@1" or (is_coverage and max_k > 1)):
            yield f"{change(one, study.level)}: {one.finding.value}."
    yield from _format_alone(study)
    yield from _sharper(study)


def _format_alone(study: Study) -> Iterator[str]:
    strict, lenient = (
        {
            (one.arm, one.reference): one
            for one in study.differences
            if one.measure == "pass@1" and one.subset == subset
        }
        for subset in ("all", LENIENT)
    )
    for pair, one in strict.items():
        gains = one.finding is DifferenceFinding.GAIN
        if gains and lenient[pair].finding is not DifferenceFinding.GAIN:
            yield (
                f"The gain of {one.arm} over {one.reference} is in format only: right by any form of the answer, "
                f"{change(lenient[pair], study.level)}, which is no gain."
            )


def _sharper(study: Study) -> Iterator[str]:
    """A caution if the policy gains over its reference at a high temperature and not at a lower one."""
    head = study.headline
    assert head is not None
    arms = {one.name: one for one in study.arms}
    base = arms[head.reference].base
    gains = {
        float(arms[one.arm].settings["T"]): one.finding is DifferenceFinding.GAIN
        for one in study.differences
        if one.measure == "pass@1" and one.subset == "all" and arms[one.reference].base == base
    }
    highest = max((value for value, gained in gains.items() if gained), default=0.0)
    if any(value < highest and not gained for value, gained in gains.items()):
        yield (
            "A gain that is missing at a lower temperature can be a sharper distribution over the same answers: such "
            "a policy loses fewer paths to chance and knows no more."
        )
