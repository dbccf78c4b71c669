"""Test-time compute, shard by shard."""

from prefect import task

from pipeline_lib.systems.loop import evaluated_sets
from pipeline_lib.systems.loop.test_time import curves, measures, search
from pipeline_lib.systems.loop.test_time.measures import ComputeShard
from tasks.policies import PLAN, SHARD

is_searched = search.is_searched

write_sets = task(**PLAN, name="write_sets", task_run_name="write-sets")(evaluated_sets.write_sets)
plan_part = task(**PLAN, name="plan_part", task_run_name="plan-{part.name}")(measures.plan_shards)
seal_search = task(**PLAN, name="seal_search", task_run_name="seal-search")(search.seal)
seal_measures = task(**PLAN, name="seal_measures", task_run_name="seal-measures")(measures.seal)
write_curves = task(**PLAN, name="write_curves", task_run_name="compute-curves-{drawn.policy}")(
    curves.write_curves
)
write_compute_report = task(
    **PLAN, name="write_compute_report", task_run_name="write-compute-report"
)(curves.write_pages)


@task(**SHARD, task_run_name="{shard.draw.name}-shard-{shard.index:03d}")
def search_shard(shard: ComputeShard) -> ComputeShard:
    """Search one shard."""
    search.search(shard)
    return shard


@task(**SHARD, task_run_name="measure-{shard.draw.name}-shard-{shard.index:03d}")
def measure_shard(shard: ComputeShard) -> ComputeShard:
    """Measure one shard."""
    measures.measure(shard)
    return shard
