"""A finished run: what its report and its exports show."""

import pathlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pydantic import TypeAdapter

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.params.whole import Params
from pipeline_lib.problems.trained import trained_on
from pipeline_lib.records import Group, Problem
from pipeline_lib.sampling.accounting import arithmetic_of, engine_time, spent_in
from pipeline_lib.store import manifests, shards
from pipeline_lib.store.files import digest_json, read_json, read_json_lines
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.study.attempts import MAIN
from pipeline_lib.study.plan import (
    BASE,
    CONTROL,
    TRAINED,
    evaluation_draws,
    temperatures,
)
from pipeline_lib.study.policies import LENIENT, PathCounts, ks_of
from pipeline_lib.study.provenance import provenance
from pipeline_lib.study.study import (
    ALL,
    METRICS_NAME,
    NamedArm,
    Point,
    Study,
    ValueKey,
    arm_name,
    read_study,
    read_values,
)
from pipeline_lib.systems.loop.compute import read_compute
from pipeline_lib.systems.loop.study import POLICY
from pipeline_lib.systems.loop.test_time.studies import read_curves
from pipeline_lib.telemetry import count_retried, read_events
from pipeline_lib.train.control_report import ControlReport, read_control_report
from pipeline_lib.train.rows.groups import GroupTable

TRAINING_LOG = "training_log.jsonl"
SCORES = {"strict": ALL, "lenient": LENIENT}
"""Names of the scores, and of their subsets in the study."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """Content of the report and of the exports. Policies are ``base``, ``control`` and ``trained``."""

    params: Params
    study: Study
    """With its claims, its provenance, and in ``compute`` the result of `read_compute`."""
    values: Mapping[ValueKey, Mapping[str, float]]
    """Of `read_values`."""
    arms: Mapping[str, str]
    """Names of the policies' arms at the temperature of sampling; without a control there is none."""
    evaluated_at: datetime
    """Timezone-aware; exports show it, so that two exports of a run are equal."""
    control: ControlReport | None
    """None if the run had no control."""
    preparation: Mapping[str, Any]
    """Of `Workspace.problems_report`."""
    trained_on: Sequence[str]
    """Of `problems.trained`, about the policies and the held-out problems."""
    spending: Mapping[str, str | float]
    """Spending on sampling: engine, requests, tokens, engine seconds, cost."""
    training_log: Sequence[Mapping[str, float]]
    data_counts: Mapping[str, float]
    """Counts of the data card."""
    lineage: Mapping[str, str]
    """Digests and versions that identify the run."""
    groups: Mapping[str, Iterable[Group]]
    """Judged paths of the drawn policies by problem; a table is read anew on each pass."""
    test_time: Mapping[str, Study]
    """Studies of test-time compute by policy."""

    @property
    def counts(self) -> dict[str, PathCounts]:
        """Paths by policy and temperature."""
        found = self.study.compute["policies"]
        return TypeAdapter(dict[str, PathCounts]).validate_python(found)

    @property
    def num_problems(self) -> int:
        """Problems with a score of the base."""
        return self.study.point(self.arms[BASE], "pass@1").n

    @property
    def overlap(self) -> dict[str, float]:
        """Counts of the word runs that test and train questions share."""
        found = self.preparation["overlap"].items()
        return {name: value for name, value in found if isinstance(value, int | float)}

    def points(self, policy: str) -> dict[str, list[Point]]:
        """pass@k of a policy at the k of the params, by score."""
        arm, ks = self.arms[policy], self.params.evaluate.ks
        return {
            name: [self.study.point(arm, f"pass@{k}", subset=subset) for k in ks]
            for name, subset in SCORES.items()
        }

    def weights(self, policy: str) -> str:
        """Digest of the weights that drew the paths, or the server's model id."""
        return next(iter(self.groups[policy])).members[0].path.provenance.model


def read_finished_run(workspace: Workspace, params: Params) -> FinishedRun:
    """Read a run whose evaluation is done.

    Args:
        workspace: workspace of the run.
        params: params of the run.

    Raises:
        BadInputError: a stage is missing, or was run with other params.
    """
    study = _study(workspace, params)
    problems = workspace.problems("test")
    control = read_control_report(workspace.control) if params.train.control else None
    has_own_control = control is not None and not control.is_base
    draws = evaluation_draws(params, control_is_base=not has_own_control)
    drawn = [case.folder(params) for case in draws]
    folders = {name: workspace.evaluation(name) for name in (BASE, CONTROL, TRAINED)}
    preparation = read_json(workspace.problems_report)
    policy = workspace.policy(params.rounds, rounds=params.rounds)
    compute = read_compute(workspace, rounds=params.rounds, drawn=drawn, control=has_own_control)
    unseen = {"unseen_number_sets": preparation["unseen_number_sets"]}
    bases = {BASE: BASE, CONTROL: CONTROL, TRAINED: POLICY}
    found = {
        name: arm_name(study, base, T=params.sample.temperature) for name, base in bases.items()
    }
    written = (workspace.evaluation_result / METRICS_NAME).stat().st_mtime
    return FinishedRun(
        params=params,
        study=replace(
            study,
            provenance=provenance(params),
            compute={**study.compute, **compute, **unseen},
            arms=tuple(_with_tokens(arm, compute) for arm in study.arms),
        ),
        values=read_values(workspace.evaluation_result),
        arms={name: arm for name, arm in found.items() if arm is not None},
        evaluated_at=datetime.fromtimestamp(int(written), tz=UTC),
        control=control,
        preparation=preparation,
        trained_on=_trained_on(workspace, policy),
        spending=_spending(workspace, params.serve),
        # Steps are numbered per phase in the log, but continuously in plots.
        training_log=[
            {**row, "step": step}
            for step, row in enumerate(read_json_lines(policy / TRAINING_LOG), start=1)
        ],
        data_counts=read_json(
            workspace.round_folders(params.rounds).traindata / "counts.json",
        ),
        lineage=_lineage(workspace, params, policy),
        groups={
            name: GroupTable(problems=problems, paths=folder.paths, verdicts=folder.verdicts)
            for name, folder in folders.items()
            if name in drawn
        },
        test_time=read_curves(workspace),
    )


def _with_tokens(arm: NamedArm, compute: Mapping[str, Any]) -> NamedArm:
    """The arm with the tokens that its training went through."""
    trained_by = {CONTROL: "control", POLICY: "loop", "vote": "loop"}
    spent = compute[trained_by[arm.base]] if arm.base in trained_by else None
    return replace(arm, trained_tokens=spent["trained_tokens"]) if spent else arm


def _study(workspace: Workspace, params: Params) -> Study:
    folder = workspace.evaluation_result
    manifests.check(folder, manifests.read_manifest(folder))
    study = read_study(folder / METRICS_NAME)
    bases = {one.base for one in study.arms}
    made = {
        "train.control": CONTROL in bases,
        "evaluate.ks": set(ks_of(study)),
        "temperatures": {one.settings["T"] for one in study.arms},
        "evaluate.sets": {one.set for one in study.points} - {MAIN},
    }
    asked = {
        "train.control": params.train.control,
        "evaluate.ks": set(params.evaluate.ks),
        "temperatures": set(temperatures(params)),
        "evaluate.sets": {one.dataset for one in params.evaluate.sets},
    }
    for name, value in asked.items():
        if made[name] != value:
            raise BadInputError(
                f"{folder}: made with {name}={_shown(made[name])}, asked for with {_shown(value)}; pass the "
                "--profile and --set of its run"
            )
    return study


def _shown(value: object) -> object:
    return sorted(value) if isinstance(value, set) else value


def _spending(workspace: Workspace, serve: ServeParams) -> dict[str, str | float]:
    """Spending of the whole workspace, as counted against a budget."""
    spent = spent_in(workspace.root)
    events = read_events(workspace.root)
    engine_seconds, gpu_seconds = engine_time(events)
    return {
        "engine": serve.engine,
        "precision, decoding": arithmetic_of(events),
        "requests": spent.requests,
        "prompt tokens": spent.prompt_tokens,
        "of these cached": spent.cached_tokens,
        "completion tokens": spent.completion_tokens,
        "engine seconds": f"{engine_seconds:.1f}",
        "GPU seconds": f"{gpu_seconds:.1f}",
        "cost at the prices of serve": f"{spent.cost(serve):.4f}",
        "retried (all stages)": count_retried(events),
    }


def _trained_on(workspace: Workspace, policy: pathlib.Path) -> list[str]:
    folders = {"base": workspace.base, "control": workspace.control, "trained policy": policy}
    problems = [Problem.from_row(row) for row in shards.iter_table(workspace.problems("test"))]
    return trained_on({f"the {name}": str(at) for name, at in folders.items()}, problems)


def _lineage(workspace: Workspace, params: Params, policy: pathlib.Path) -> dict[str, str]:
    folders = {
        "test problems": workspace.problems("test"),
        "base policy": workspace.base,
        "trained policy": policy,
        "training data": workspace.round_folders(params.rounds).traindata,
    }
    digests = {name: manifests.read_manifest(path).digest[:16] for name, path in folders.items()}
    # Params of execution and serving do not change results.
    settings = params.model_dump(mode="json", exclude={"execution", "serve"})
    settings["engine"] = params.serve.engine
    return {"params": digest_json(settings)[:16], "seed": str(params.seed), **digests}
