"""Test-time compute on a policy of a finished workspace: draw, search, judge, measure, curves."""

import pathlib
from typing import Literal

from prefect import flow

from flows.runners import RunSettings, cluster, map_bounded, shards_in_flight, task_runner
from flows.sample_and_verify import Draw, run_draw
from pipeline_lib.params.evaluate import RESCORING, Strategy
from pipeline_lib.storage.workspace import RoundFolders
from pipeline_lib.telemetry import timed_stage
from tasks.compute_curves import write_curves
from tasks.compute_measures import measure_shard, seal_measures
from tasks.compute_parts import STAGE, ComputePart, ComputeShard, plan_part
from tasks.compute_report import write_compute_report
from tasks.compute_search import is_searched, seal_search, search_shard
from tasks.serving import endpoint_for
from tasks.verification import VerifyShard, seal_verdicts, verify_shard

PolicyName = Literal["base", "trained"]
_DRAWN = "drawn"


def run_compute_curves(settings: RunSettings, policies: tuple[PolicyName, ...]) -> None:
    """The curves of each policy, then their report. What is done, and still holds, stays."""
    runner = task_runner(settings.params.execution)
    with cluster(settings.params.execution):
        for policy in policies:
            with timed_stage(settings.root, STAGE, draw=policy):
                compute_curves.with_options(task_runner=runner)(settings, policy)
    write_compute_report(settings.workspace)


@flow(name="compute-curves", flow_run_name="compute-curves-{policy}")
def compute_curves(settings: RunSettings, policy: PolicyName) -> None:
    """All strategies of one policy."""
    drawn = _part(settings, policy, _DRAWN)
    run_draw(settings, _draw(settings, drawn))
    _measure(settings, plan_part(drawn))
    searches = _searches(settings, policy)
    planned = [plan_part(part) for part in searches]
    wanted = not all(is_searched(shard) for shards in planned for shard in shards)
    # One engine for all searches: to start a server takes longer than to search.
    with endpoint_for(
        settings.params.serve, settings.root, model=drawn.model, wanted=wanted
    ) as endpoint:
        for shards in planned:
            _search(settings, [shard.at(endpoint) for shard in shards])
    for shards in planned:
        _judge(settings, shards)
    write_curves(drawn, searches, settings.params.evaluate)


def _search(settings: RunSettings, shards: list[ComputeShard]) -> None:
    in_flight = shards_in_flight(settings.params.execution)
    seal_search(map_bounded(search_shard, shards, in_flight=in_flight))


def _judge(settings: RunSettings, shards: list[ComputeShard]) -> None:
    """Verdicts and answers of what a search found."""
    in_flight = shards_in_flight(settings.params.execution)
    to_verify = [_to_verify(shard) for shard in shards]
    seal_verdicts(map_bounded(verify_shard, to_verify, in_flight=in_flight))
    _measure(settings, shards)


def _measure(settings: RunSettings, shards: list[ComputeShard]) -> None:
    in_flight = shards_in_flight(settings.params.execution)
    seal_measures(map_bounded(measure_shard, shards, in_flight=in_flight))


def _searches(settings: RunSettings, policy: PolicyName) -> list[ComputePart]:
    """A tree grows through all budgets; a beam is another search for each."""
    compute = settings.params.compute
    searches = []
    if Strategy.BEAM in compute.strategies:
        searches += [
            _part(settings, policy, f"beam-{budget}", strategy=Strategy.BEAM, budget=budget)
            for budget in compute.beam_budgets
        ]
    if Strategy.TREE in compute.strategies:
        budget = max(compute.budgets)
        searches.append(_part(settings, policy, "tree", strategy=Strategy.TREE, budget=budget))
    return searches


def _part(
    settings: RunSettings,
    policy: PolicyName,
    name: str,
    *,
    strategy: Strategy | None = None,
    budget: int = 0,
) -> ComputePart:
    params, workspace = settings.params, settings.workspace
    trained = workspace.policy(params.rounds, rounds=params.rounds)
    return ComputePart(
        workspace=settings.root,
        policy=policy,
        name=name,
        problems=workspace.problems("test"),
        folders=workspace.compute(policy, name),
        model=str(workspace.base if policy == "base" else trained),
        sample=params.sample,
        compute=params.compute,
        verify=params.verify,
        serve=params.serve,
        seed=params.seed,
        strategy=strategy,
        budget=budget,
        rescored=strategy is None and bool(RESCORING & set(params.compute.strategies)),
    )


def _draw(settings: RunSettings, drawn: ComputePart) -> Draw:
    """The independent paths; both policies draw with the same seeds."""
    paths = max(settings.params.compute.budgets)
    folders = drawn.folders
    return Draw(
        name=f"{STAGE}-{drawn.policy}",
        seed_name=STAGE,
        problems=drawn.problems,
        policy=pathlib.Path(drawn.model),
        folders=RoundFolders(
            paths=folders.paths, verdicts=folders.verdicts, traindata=folders.measures
        ),
        params=settings.params.sample.model_copy(update={"num_paths": paths}),
        within=STAGE,
    )


def _to_verify(shard: ComputeShard) -> VerifyShard:
    part = shard.part
    return VerifyShard(
        workspace=part.workspace,
        stage=STAGE,
        label=f"verify {part.label}",
        problems=part.problems,
        paths=part.folders.paths,
        output=part.folders.verdicts,
        params=part.verify,
        index=shard.index,
        num_shards=shard.num_shards,
    )
