"""The candidate of a workspace compared with the released policy, as a request for a person's approval.

The first release is compared with the base of its run. The request holds paths, figures and texts, not the
evaluations themselves, so that flows can pass it on.
"""

import pathlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from pipeline_lib.engines.identity import model_identity
from pipeline_lib.errors import BadInputError, errors_at
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.problems.trained import trained_on
from pipeline_lib.publish.promotion import wording
from pipeline_lib.publish.promotion.releases import (
    Cost,
    Evaluated,
    Facts,
    Release,
    Releases,
    Tables,
)
from pipeline_lib.records import Group, Path
from pipeline_lib.store import manifests
from pipeline_lib.store.files import digest_json, read_json
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.study.policies import compare_groups, ks_of
from pipeline_lib.study.study import METRICS_NAME, read_study
from pipeline_lib.telemetry import read_events
from pipeline_lib.train.rows.groups import read_groups
from pipeline_lib.verify import VERIFIER_VERSION

_CANDIDATE = "candidate"
_SEED = 0
"""Of the bootstrap; no other random choice is made."""
_SAMPLING = ("temperature", "top_p", "max_new_tokens", "engine")


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotionRequest:
    """A compared candidate, which a person is asked to approve."""

    policy: pathlib.Path
    tables: Tables
    facts: Facts
    title: str
    description: str
    """Gain with interval, flips and cost, as Markdown."""
    details: str
    """The description with further tables."""
    regression: str | None
    """One line, if the whole interval of the difference of pass@1 is below 0."""
    released_as: int | None
    """Number of the current release, if it has the weights of the candidate."""

    @property
    def key(self) -> str:
        """Digest of the facts: an answer is valid for the same candidate and figures only."""
        return digest_json(self.facts.model_dump(mode="json"))[:16]


def make_request(workspace: Workspace, releases: Releases) -> PromotionRequest:
    """Compare the candidate of ``workspace`` with the released policy, problem by problem.

    Raises:
        BadInputError: there is no candidate, or the evaluations differ in more than the policy.
        CorruptArtifactError: the policy differs from its manifest.
    """
    candidate, released = read_candidate(workspace), releases.current()
    reference = released.evaluated() if released else _evaluated(workspace, "base", name="base")
    _require_same_conditions(candidate, reference)
    sides = {reference.name: reference.groups, _CANDIDATE: candidate.groups}
    scores = compare_groups(sides, _params(workspace, candidate), seed=_SEED)
    gain = scores.study.headline
    assert gain is not None  # compare_groups refuses policies without a shared problem
    policy = workspace.policy(1, rounds=1)
    facts = Facts(
        policy=model_identity(str(policy)),
        replaces=released.record.number if released else None,
        compared_with=reference.name,
        pass_at_1=gain.of_arm,
        gain=replace(gain.interval, level=scores.study.level),
        gained=len(scores.flips.gained),
        lost=len(scores.flips.lost),
        verifier=candidate.verifier,
        cost=candidate.cost,
    )
    same_prompts = len({_templates(candidate), _templates(reference)}) == 1
    description = wording.description(
        scores, facts, [reference.cost, candidate.cost], same_prompts=same_prompts
    )
    is_released = released is not None and released.record.facts.policy == facts.policy
    return PromotionRequest(
        policy=policy,
        tables=_tables(workspace, "trained"),
        facts=facts,
        title=wording.title(scores),
        description=description,
        details=wording.details(scores, description),
        regression=wording.regression(facts) if facts.gain.high < 0 else None,
        released_as=released.record.number if released is not None and is_released else None,
    )


def release(request: PromotionRequest, releases: Releases) -> Release:
    """Copy the candidate of an approved request and make it the released policy, as `Releases.add`."""
    return releases.add(request.policy, request.tables, request.facts)


def check_candidate(workspace: Workspace) -> None:
    """Check that ``workspace`` has a policy and its evaluation.

    Raises:
        BadInputError: it has not.
    """
    for folder in (workspace.policy(1, rounds=1), workspace.evaluation_result):
        if not (folder / manifests.MANIFEST_NAME).is_file():
            raise BadInputError(
                f"{workspace.root}: has no evaluated policy; finish `reasonloop run` there, or name "
                "another --workspace"
            )


def read_candidate(workspace: Workspace) -> Evaluated:
    """The trained policy of ``workspace``, checked against its manifest.

    Raises:
        BadInputError: the run is not finished, or its policy was trained after the evaluation.
        CorruptArtifactError: the policy differs from its manifest.
    """
    check_candidate(workspace)
    policy = workspace.policy(1, rounds=1)
    for folder in (workspace.evaluation_result, policy):
        manifests.check(folder, manifests.read_manifest(folder))
    evaluated = _evaluated(workspace, "trained", name=_CANDIDATE, making=_compute(workspace))
    if found := trained_on({str(policy): str(policy)}, [one.problem for one in evaluated.groups]):
        raise BadInputError(f"{found[0]} Evaluate it on other problems")
    _require_evaluated(evaluated.groups, model_identity(str(policy)), workspace.root)
    return evaluated


def _params(workspace: Workspace, candidate: Evaluated) -> EvaluateParams:
    """Ks and confidence level of the run's evaluation."""
    study = read_study(workspace.evaluation_result / METRICS_NAME)
    most = max(len(group.members) for group in candidate.groups)
    return EvaluateParams(ks=ks_of(study), num_paths=most, confidence_level=study.level)


def _tables(workspace: Workspace, policy: str) -> Tables:
    folders = workspace.evaluation(policy)
    return workspace.problems("test"), folders.paths, folders.verdicts


def _evaluated(
    workspace: Workspace,
    policy: str,
    *,
    name: str,
    making: dict[str, int | float | None] | None = None,
) -> Evaluated:
    tables = _tables(workspace, policy)
    seconds = _drawing_seconds(workspace, tables[1])
    return Evaluated(
        name=name,
        groups=read_groups(*tables),
        verifier=VERIFIER_VERSION,
        cost=Cost(seconds_per_1000_paths=seconds, making=making),
    )


def _require_evaluated(groups: Sequence[Group], identity: str, root: pathlib.Path) -> None:
    drawn_by = {member.path.provenance.model for group in groups for member in group.members}
    if drawn_by != {identity}:
        raise BadInputError(
            f"{root}: the evaluation is of other weights ({', '.join(sorted(drawn_by))}) than "
            f"models/policy ({identity}); run `reasonloop stage evaluate` there"
        )


def _drawing_seconds(workspace: Workspace, paths: pathlib.Path) -> float | None:
    """Worker seconds per 1,000 paths; a shard that was drawn again counts once."""
    manifest = manifests.read_manifest(paths)
    last = {
        event["done"]: float(event["worker_seconds"])
        for event in read_events(workspace.root)
        if event["event"] == "work" and event.get("key") == manifest.key
    }
    return 1000 * sum(last.values()) / manifest.counts["rows"] if last else None


def _compute(workspace: Workspace) -> dict[str, int | float | None] | None:
    """Compute of the loop from the metrics of the report; None if there is no report."""
    if not workspace.metrics.is_file():
        return None
    figures: Any = read_json(workspace.metrics)
    fault, remedy = "has no compute of the loop", "run `reasonloop report` there"
    wrong = (KeyError, TypeError, ValidationError)
    with errors_at(workspace.metrics, *wrong, fault=fault, remedy=remedy):
        loop = figures["compute"]["loop"]
        return Cost(making={name: loop[name] for name in wording.MAKING}).making


def _require_same_conditions(candidate: Evaluated, reference: Evaluated) -> None:
    """Check that problems, seeds, sampling params, engine and verifier are equal.

    Templates may differ, since a chat template belongs to its model.

    Raises:
        BadInputError: the evaluations differ in more than the policy; the message names the first
            difference.
    """
    found = next(_differences(candidate, reference), None)
    if found is not None:
        raise BadInputError(
            f"{candidate.name} and {reference.name} cannot be compared: {found}; run the candidate "
            "with the params and data of the release, or start another --releases folder"
        )


def _differences(candidate: Evaluated, reference: Evaluated) -> Iterator[str]:
    name = reference.name
    asked, asked_before = _questions(candidate), _questions(reference)
    if apart := sorted(asked.keys() ^ asked_before.keys()):
        shared = len(asked.keys() & asked_before.keys())
        yield (
            f"of {len(asked)} test problems only {shared} are among the {len(asked_before)} of {name} "
            f"(first difference: {apart[0]})"
        )
    if changed := [key for key in sorted(asked) if asked[key] != asked_before.get(key)]:
        yield (
            f"the test set has changed: {len(changed)} problems have another question or gold "
            f"(first: {changed[0]})"
        )
    ours, theirs = _paths(candidate), _paths(reference)
    for param in _SAMPLING:
        mine, other = (
            {str(getattr(path.provenance, param)) for path in paths.values()}
            for paths in (ours, theirs)
        )
        if mine != other:
            yield f"{param} is {' and '.join(sorted(mine))}, of {name} {' and '.join(sorted(other))}"
    if ours.keys() != theirs.keys():
        yield f"{len(ours)} paths were drawn, for {name} {len(theirs)}"
    seeds = [
        (ours[key].provenance.seed, theirs[key].provenance.seed) for key in ours if key in theirs
    ]
    if reseeded := sum(mine != other for mine, other in seeds):
        yield f"the seeds of {reseeded} of {len(ours)} paths differ"
    if candidate.verifier != reference.verifier:
        yield (
            f"version {candidate.verifier} of the verifiers judged the candidate, "
            f"version {reference.verifier} {name}"
        )


def _questions(side: Evaluated) -> dict[str, tuple[str, Any]]:
    return {group.problem.id: (group.problem.question, group.problem.gold) for group in side.groups}


def _paths(side: Evaluated) -> dict[tuple[str, int], Path]:
    return {
        (member.path.problem_id, member.path.index): member.path
        for group in side.groups
        for member in group.members
    }


def _templates(side: Evaluated) -> frozenset[str]:
    return frozenset(path.provenance.template for path in _paths(side).values())
