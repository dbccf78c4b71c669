"""Reads the results of a finished run from its workspace into the input of the report."""

import pathlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from pydantic import TypeAdapter

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.params.whole import Params
from pipeline_lib.problems.overlap import OverlapSample
from pipeline_lib.problems.trained import trained_on
from pipeline_lib.publish.exports.evaluated_policy import EvaluatedPolicy, evaluated_policies
from pipeline_lib.publish.reporting import tables
from pipeline_lib.publish.reporting.curves import read_curves
from pipeline_lib.publish.reporting.report import ReportInput
from pipeline_lib.publish.reporting.run_compute import (
    RunCompute,
    StageCosts,
    TokenCount,
    read_run_compute,
)
from pipeline_lib.records import Problem
from pipeline_lib.sampling.accounting import arithmetic_of, engine_time, spent_in
from pipeline_lib.store import manifests, shards
from pipeline_lib.store.files import digest_json, read_json, read_json_lines
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.study.pages.tables import Table
from pipeline_lib.study.plan import BASE, CONTROL, TRAINED, evaluation_draws, temperatures
from pipeline_lib.study.policies import PathCounts, ks_of
from pipeline_lib.study.study import METRICS_NAME, Study, arm_name, read_study, read_values
from pipeline_lib.systems.loop.stages import LOOP
from pipeline_lib.systems.loop.study import POLICY
from pipeline_lib.telemetry import (
    Event,
    count_retried,
    read_events,
    stage_peaks,
    stage_seconds,
    total_seconds,
)
from pipeline_lib.train.control_report import read_control_report
from pipeline_lib.train.rows.groups import GroupTable

TRAINING_LOG = "training_log.jsonl"


def read_finished_run(workspace: Workspace, params: Params) -> ReportInput:
    """Read everything that a report shows.

    Args:
        workspace: workspace of a run whose evaluation is done.
        params: params of the run.

    Raises:
        BadInputError: a stage is missing, or was run with other params.
    """
    study = _study(workspace, params)
    temperature = params.sample.temperature
    problems = workspace.problems("test")
    control = read_control_report(workspace.control) if params.train.control else None
    has_own_control = control is not None and not control.is_base
    drawn = [draw.folder for draw in evaluation_draws(params, control_is_base=not has_own_control)]
    groups = {
        name: GroupTable(problems=problems, paths=folders.paths, verdicts=folders.verdicts)
        for name in drawn
        for folders in [workspace.evaluation(name)]
    }
    events = _events(workspace, params.rounds)
    seconds = stage_seconds(events)
    problems = read_json(workspace.problems_report)
    stages = [stage.name for stage in LOOP.stages[:-1]]  # all but the report itself
    last = workspace.round_folders(params.rounds)
    policy = workspace.policy(params.rounds, rounds=params.rounds)
    return ReportInput(
        study=study,
        values=read_values(workspace.evaluation_result),
        base=_arm(study, BASE, temperature),
        policy=_arm(study, POLICY, temperature),
        control_arm=arm_name(study, CONTROL, T=temperature),
        counts=TypeAdapter(dict[str, PathCounts]).validate_python(study.compute["policies"]),
        costs=StageCosts(
            seconds={stage: seconds[stage] for stage in stages if stage in seconds},
            total_seconds=total_seconds([e for e in events if e.get("stage") in stages]),
            tokens=dict(_tokens(workspace, params.rounds, drawn)),
            peaks_mib={s: peak for s, peak in stage_peaks(events).items() if s in stages},
        ),
        spent=read_run_compute(workspace, rounds=params.rounds, control=has_own_control),
        control=control,
        trained_on=_trained_on(workspace, policy),
        unseen_number_sets=problems["unseen_number_sets"],
        unseen_templates=problems.get("unseen_templates"),
        spending=_spending(workspace, params.serve),
        # Steps are numbered per phase in the log, but continuously in plots.
        training_log=[
            {**row, "step": step}
            for step, row in enumerate(read_json_lines(policy / TRAINING_LOG), start=1)
        ],
        data_counts=read_json(last.traindata / "counts.json"),
        overlap={k: v for k, v in problems["overlap"].items() if isinstance(v, int | float)},
        shared_runs=[OverlapSample(**sample) for sample in problems["overlap"]["samples"]],
        lineage=_lineage(workspace, params, policy),
        groups={name: groups[name] for name in (BASE, CONTROL, TRAINED) if name in groups},
        num_examples=params.report.num_examples,
        compute=read_curves(workspace),
    )


def compute_tables(study: Study) -> list[Table]:
    """Compute, time, tokens and memory of a finished run, from its metrics."""
    found = study.compute
    spent = TypeAdapter(RunCompute).validate_python(
        {name: found[name] for name in ("loop", "control")}
    )
    seconds = found["seconds"]
    costs = StageCosts(
        seconds={stage.name: seconds[stage.name] for stage in LOOP.stages if stage.name in seconds},
        total_seconds=seconds["total"],
        tokens={name: TokenCount(**count) for name, count in found["tokens"].items()},
        peaks_mib=found["peak_mib"],
    )
    return [tables.run_compute_table(spent), tables.cost_table(costs)]


def read_policies(workspace: Workspace, params: Params) -> list[EvaluatedPolicy]:
    """The policies of the finished run in ``workspace``.

    Raises:
        BadInputError: a stage is missing, or was done with other params.
    """
    source = read_finished_run(workspace, params)
    # The time of the evaluation, so that two exports of a run are equal.
    written = (workspace.evaluation_result / METRICS_NAME).stat().st_mtime
    return evaluated_policies(
        source,
        dataset=params.prepare.dataset,
        evaluated_at=datetime.fromtimestamp(int(written), tz=UTC),
    )


def _arm(study: Study, base: str, temperature: float) -> str:
    name = arm_name(study, base, T=temperature)
    assert name is not None, base
    return name


def _study(workspace: Workspace, params: Params) -> Study:
    folder = workspace.evaluation_result
    manifests.check(folder, manifests.read_manifest(folder))
    study = read_study(folder / METRICS_NAME)
    bases = {one.base for one in study.arms}
    made = {
        "train.control": CONTROL in bases,
        "evaluate.ks": set(ks_of(study)),
        "temperatures": {one.settings["T"] for one in study.arms},
    }
    asked = {
        "train.control": params.train.control,
        "evaluate.ks": set(params.evaluate.ks),
        "temperatures": set(temperatures(params)),
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


def _events(workspace: Workspace, rounds: int) -> list[Event]:
    """Events without rounds of an earlier, longer run."""
    draws = {None, *(f"round-{number}" for number in range(1, rounds + 1))}
    return [event for event in read_events(workspace.root) if event.get("draw") in draws]


def _tokens(
    workspace: Workspace, rounds: int, policies: Sequence[str]
) -> Iterator[tuple[str, TokenCount]]:
    sampled = [workspace.round_folders(number).paths for number in range(1, rounds + 1)]
    evaluated = [workspace.evaluation(name).paths for name in policies]
    for stage, folders in (("sample", sampled), ("evaluate", evaluated)):
        counts = [manifests.read_manifest(folder).counts for folder in folders]
        yield (
            stage,
            TokenCount(
                prompt=int(sum(count["prompt_tokens"] for count in counts)),
                completion=int(sum(count["completion_tokens"] for count in counts)),
            ),
        )


def _spending(workspace: Workspace, serve: ServeParams) -> dict[str, str | float]:
    """Spending of the whole workspace, as counted against a budget."""
    spent = spent_in(workspace.root)
    events = read_events(workspace.root)
    time = engine_time(events)
    return {
        "engine": serve.engine,
        "precision, decoding": arithmetic_of(events),
        "requests": spent.requests,
        "prompt tokens": spent.prompt_tokens,
        "of these cached": spent.cached_tokens,
        "completion tokens": spent.completion_tokens,
        "engine seconds": f"{time.engine_seconds:.1f}",
        "GPU seconds": f"{time.gpu_seconds:.1f}",
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
