"""The candidate for a release: the policy of a finished run with its evaluation."""

import pathlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from pipeline_lib.engines.identity import model_identity
from pipeline_lib.errors import BadInputError, reason_of
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.problems.trained import trained_on
from pipeline_lib.publish.promotion.evaluated import Cost, Evaluated, Tables, TrainingCompute
from pipeline_lib.records import Group
from pipeline_lib.store import manifests
from pipeline_lib.store.files import read_json
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.study.policies import ks_of
from pipeline_lib.study.study import METRICS_NAME, Study, read_study
from pipeline_lib.telemetry import read_events
from pipeline_lib.verify import VERIFIER_VERSION

CANDIDATE = "candidate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """The trained policy of a workspace, checked against its manifest."""

    policy: pathlib.Path
    identity: str
    """Digest of the weights."""
    tables: Tables
    evaluated: Evaluated
    params: EvaluateParams
    """ks and confidence level of the run's evaluation."""


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


def read_candidate(workspace: Workspace) -> Candidate:
    """Read the candidate of ``workspace``.

    Raises:
        BadInputError: the run is not finished, or its policy was trained after the evaluation.
        CorruptArtifactError: the policy differs from its manifest.
    """
    study = _study(workspace)
    policy = workspace.policy(1, rounds=1)
    manifests.check(policy, manifests.read_manifest(policy))
    evaluated = _evaluated(workspace, "trained", name=CANDIDATE, making=_compute(workspace))
    if found := trained_on({str(policy): str(policy)}, [one.problem for one in evaluated.groups]):
        raise BadInputError(f"{found[0]} Evaluate it on other problems")
    identity = model_identity(str(policy))
    _require_evaluated(evaluated.groups, identity, workspace.root)
    return Candidate(
        policy=policy,
        identity=identity,
        tables=_tables(workspace, "trained"),
        evaluated=evaluated,
        params=EvaluateParams(
            ks=ks_of(study),
            num_paths=max(len(group.members) for group in evaluated.groups),
            confidence_level=study.level,
        ),
    )


def read_base(workspace: Workspace) -> Evaluated:
    """The base policy of the run, with which a first release is compared."""
    return _evaluated(workspace, "base", name="base", making=None)


def _study(workspace: Workspace) -> Study:
    check_candidate(workspace)
    folder = workspace.evaluation_result
    manifests.check(folder, manifests.read_manifest(folder))
    return read_study(folder / METRICS_NAME)


def _tables(workspace: Workspace, policy: str) -> Tables:
    folders = workspace.evaluation(policy)
    return Tables(
        problems=workspace.problems("test"), paths=folders.paths, verdicts=folders.verdicts
    )


def _evaluated(
    workspace: Workspace, policy: str, *, name: str, making: TrainingCompute | None
) -> Evaluated:
    tables = _tables(workspace, policy)
    return Evaluated(
        name=name,
        groups=tables.read(),
        verifier=VERIFIER_VERSION,
        cost=Cost(seconds_per_1000_paths=_drawing_seconds(workspace, tables.paths), making=making),
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
    key = manifests.read_manifest(paths).key
    last = {
        event["done"]: float(event["worker_seconds"])
        for event in read_events(workspace.root)
        if event["event"] == "work" and event.get("key") == key
    }
    drawn = manifests.read_manifest(paths).counts["rows"]
    return 1000 * sum(last.values()) / drawn if last else None


def _compute(workspace: Workspace) -> TrainingCompute | None:
    """Compute of the loop from the metrics of the report; None if there is no report."""
    if not workspace.metrics.is_file():
        return None
    figures: Any = read_json(workspace.metrics)
    try:
        return TrainingCompute.model_validate(figures["compute"]["loop"])
    except (KeyError, TypeError, ValidationError) as error:
        raise BadInputError(
            f"{workspace.metrics}: has no compute of the loop ({reason_of(error)}); run `reasonloop "
            "report` there"
        ) from error
