"""The study of the loop: base, control, policy and baselines at each temperature, votes of the policy."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict

from pipeline_lib.params.whole import Params
from pipeline_lib.records import Group
from pipeline_lib.study.attempts import MAIN
from pipeline_lib.study.headline import change, claims_of, is_unsolved
from pipeline_lib.study.plan import (
    BASE,
    CONTROL,
    TRAINED,
    Case,
    baselines,
    evaluation_cases,
    temperatures,
)
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
    groups: Callable[[Case], Sequence[Group]],
    *,
    provenance: Mapping[str, str | None],
    seen: Mapping[str, frozenset[str]],
) -> tuple[Study, list[Series]]:
    """The study of every policy at every temperature and on every set, and its series.

    Groups of one case are in memory at a time.

    Args:
        params: of the run.
        groups: judged paths of a case.
        provenance: see `Study.provenance`.
        seen: ids of evaluated problems that a training saw, by policy.
    """
    scores: dict[Case, PolicyScores] = {}
    votes: list[Series] = []
    for case in evaluation_cases(params):
        arm = Arm(
            base=_BASES.get(case.policy, case.policy),
            settings={"T": case.temperature},
            seen=seen.get(case.policy, frozenset()),
        )
        judged = groups(case)
        found = scores[case] = score_policy(arm, judged, params.evaluate, set_name=case.set)
        if case.policy == TRAINED and case.set == MAIN:
            votes += vote_series(arm, found, judged)
    study = make_study(
        SYSTEM,
        series := [*(series for one in scores.values() for series in one.series), *votes],
        list(_contrasts(params, scores)),
        evaluate=params.evaluate,
        seed=params.seed,
        provenance=provenance,
        left_out={
            f"{_named(case)} at temperature {case.temperature:g}: too few scored paths": one.counts.left_out
            for case, one in scores.items()
        },
        compute={
            "policies": {case.folder(params): asdict(one.counts) for case, one in scores.items()}
        },
    )
    claims = loop_claims(study, max_k=max(params.evaluate.ks))
    return study.with_claims(claims), series


def _named(case: Case) -> str:
    return case.policy if case.set == MAIN else f"{case.policy} on {case.set}"


def _contrasts(params: Params, scores: Mapping[Case, PolicyScores]) -> Iterator[Contrast]:
    """The policy minus its control, the base and the baselines, then the control minus the base.

    By temperature, then by further set.
    """
    ks = sorted(params.evaluate.ks)
    places = [
        *((one, MAIN) for one in temperatures(params)),
        *((params.sample.temperature, one.dataset) for one in params.evaluate.sets),
    ]
    for temperature, name in places:
        own = {case.policy: one for case, one in scores.items() if case[1:] == (temperature, name)}
        references = [one for one in (CONTROL, BASE, *baselines(params)) if one in own]
        for reference in references:
            yield from policy_contrasts(own[TRAINED], own[reference], ks)
        if CONTROL in own:
            yield from policy_contrasts(own[CONTROL], own[BASE], ks)


def arm_at(study: Study, base: str, temperature: float) -> str | None:
    """Name of an arm in the file; None if the study has no such arm."""
    return arm_name(study, base, T=temperature)


def loop_claims(study: Study, *, max_k: int) -> Iterator[str]:
    """Sentences: the gain over the control, coverage, the gain over the base and at further temperatures."""
    yield from claims_of(study)
    head = study.headline
    if head is None or is_unsolved(study):
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
        if one.subset == "all" and one.set == MAIN
    }
    for (arm, reference, measure), one in strict.items():
        is_coverage = measure == f"pass@{max_k}" and (arm, reference) == (head.arm, head.reference)
        is_claimed = measure == "pass@1" or (is_coverage and max_k > 1)
        if one is not head and is_claimed and (one.of_arm or one.of_reference):
            yield f"{change(one, study.level)}: {one.finding.value}."
    yield from _format_alone(study)
    yield from _sharper(study)
    for one in study.differences:
        own = (one.arm, one.reference, one.measure, one.subset)
        if one.set != MAIN and own == (head.arm, head.reference, "pass@1", "all"):
            yield f"{change(one, study.level)}: {one.finding.value}."


def _format_alone(study: Study) -> Iterator[str]:
    strict, lenient = (
        {
            (one.arm, one.reference): one
            for one in study.differences
            if (one.measure, one.subset, one.set) == ("pass@1", subset, MAIN)
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
        if (one.measure, one.subset, one.set) == ("pass@1", "all", MAIN)
        and arms[one.reference].base == base
    }
    highest = max((value for value, gained in gains.items() if gained), default=0.0)
    if any(value < highest and not gained for value, gained in gains.items()):
        yield (
            "A gain that is missing at a lower temperature can be a sharper distribution over the same answers: such "
            "a policy loses fewer paths to chance and knows no more."
        )
