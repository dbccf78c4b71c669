"""Test-time compute on a policy of a finished workspace: draw, search, judge, measure, curves."""

from collections.abc import Iterable

from prefect import flow

from flows.parallel.draws import sample_and_verify
from flows.parallel.fan_out import map_bounded
from flows.ray.runners import asking_for, cluster, shards_in_flight, task_runner
from flows.run.guard import run_guard
from pipeline_lib.params.evaluate import Strategy
from pipeline_lib.systems.loop.stages import LOOP
from pipeline_lib.systems.loop.test_time.measures import STAGE, ComputePart, ComputeShard
from pipeline_lib.systems.loop.test_time.studies import Studied
from pipeline_lib.systems.stage import Run
from pipeline_lib.telemetry import timed_stage
from tasks.gpu import gpu_slot
from tasks.loop import plan_verification, seal_verdicts, verify_shard
from tasks.serving import endpoint_for
from tasks.test_time import (
    is_searched,
    measure_shard,
    plan_part,
    seal_measures,
    seal_search,
    search_shard,
    write_compute_report,
    write_curves,
    write_sets,
)

_DRAWN = "drawn"


def run_compute_curves(run: Run, policies: Iterable[Studied]) -> None:
    """Compute the curves of each policy and their report; finished work is reused."""
    runner = task_runner(run.params.execution)
    with cluster(run.params.execution, run.root):
        for policy in policies:
            with timed_stage(run.root, STAGE, draw=policy.name):
                compute_curves.with_options(task_runner=runner)(run, policy)
    write_compute_report(run.workspace)


@flow(
    name="compute-curves", flow_run_name="compute-curves-{policy.name}", validate_parameters=False
)
def compute_curves(run: Run, policy: Studied) -> None:
    """Draw, search, judge and measure for one policy."""
    with run_guard(LOOP, run):
        write_sets(run)
        drawn = _part(run, policy, _DRAWN)
        sample_and_verify(drawn)
        _measure(run, plan_part(drawn))
        searches = _searches(run, policy)
        planned = [plan_part(part) for part in searches]
        wanted = not all(is_searched(shard) for shards in planned for shard in shards)
        # One engine for all searches: starting a server takes longer than a search.
        in_ray = run.params.execution.runner == "ray"
        with endpoint_for(
            run.params.serve, run.root, model=drawn.model, wanted=wanted, in_ray=in_ray
        ) as endpoint:
            for shards in planned:
                _search(run, [shard.at(endpoint) for shard in shards])
        for shards in planned:
            _judge(run, shards)
        write_curves(drawn, searches, run.params.evaluate)


def _search(run: Run, shards: list[ComputeShard]) -> None:
    execution = run.params.execution
    in_flight = shards_in_flight(execution)
    # Policies score steps in the worker, whatever engine draws them.
    with asking_for(execution, "sample", uses_gpu=True):
        searched = map_bounded(search_shard, shards, in_flight=in_flight)
    seal_search(searched)


def _judge(run: Run, shards: list[ComputeShard]) -> None:
    """Judge and measure the paths that a search found."""
    in_flight = shards_in_flight(run.params.execution)
    to_verify = plan_verification(shards[0].draw)
    with asking_for(run.params.execution, "verify"):
        judged = map_bounded(verify_shard, to_verify, in_flight=in_flight)
    seal_verdicts(judged)
    _measure(run, shards)


def _measure(run: Run, shards: list[ComputeShard]) -> None:
    execution = run.params.execution
    in_flight = shards_in_flight(execution)
    rescored = any(shard.draw.rescored for shard in shards)
    asking = asking_for(execution, "sample" if rescored else "verify", uses_gpu=rescored)
    # In workers of Ray on a GPU that Ray has assigned.
    with gpu_slot(wanted=rescored and execution.runner == "thread"), asking:
        measured = map_bounded(measure_shard, shards, in_flight=in_flight)
    seal_measures(measured)


def _searches(run: Run, policy: Studied) -> list[ComputePart]:
    """One tree search covers all budgets; beam search runs once per budget."""
    test_time = run.params.test_time
    searches = []
    if Strategy.BEAM in test_time.strategies:
        searches += [
            _part(run, policy, f"beam-{budget}", strategy=Strategy.BEAM, budget=budget)
            for budget in test_time.beam_budgets
        ]
    if Strategy.TREE in test_time.strategies:
        budget = max(test_time.budgets)
        searches.append(_part(run, policy, "tree", strategy=Strategy.TREE, budget=budget))
    return searches


def _part(
    run: Run,
    policy: Studied,
    name: str,
    *,
    strategy: Strategy | None = None,
    budget: int = 0,
) -> ComputePart:
    sample = run.params.sample
    if strategy is None:
        paths = max(run.params.test_time.budgets)
        sample = sample.model_copy(update={"num_paths": paths, "shots": 0})
    return ComputePart(
        run=run,
        name=f"{name} {policy.name}",
        seed_name=STAGE,  # all policies use the same seeds
        policy=policy.name,
        problems=policy.problems,
        folders=run.workspace.compute(policy.name, name),
        model=policy.model,
        stage=STAGE,
        sample=sample,
        strategy=strategy,
        budget=budget,
    )
