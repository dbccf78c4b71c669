"""Test-time compute, shard by shard."""

from collections.abc import Sequence

from prefect import task

from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.systems.loop.test_time import curves, measures, parts, search
from pipeline_lib.systems.loop.test_time.parts import ComputePart, ComputeShard
from tasks.policies import PLAN, SHARD

is_searched = search.is_searched


@task(**PLAN, task_run_name="plan-{part.name}-{part.policy}")
def plan_part(part: ComputePart) -> list[ComputeShard]:
    """The shards of a part."""
    return parts.plan_shards(part)


@task(**SHARD, task_run_name="{shard.part.name}-shard-{shard.index:03d}")
def search_shard(shard: ComputeShard) -> ComputeShard:
    """Search one shard."""
    search.search(shard)
    return shard


@task(**PLAN, task_run_name="seal-search")
def seal_search(searched: Sequence[ComputeShard]) -> None:
    """Seal the tables of a search."""
    search.seal(searched)


@task(**SHARD, task_run_name="measure-{shard.part.name}-shard-{shard.index:03d}")
def measure_shard(shard: ComputeShard) -> ComputeShard:
    """Measure one shard."""
    measures.measure(shard)
    return shard


@task(**PLAN, task_run_name="seal-measures")
def seal_measures(measured: Sequence[ComputeShard]) -> None:
    """Seal the table of measures."""
    measures.seal(measured)


@task(**PLAN, task_run_name="compute-curves-{drawn.policy}")
def write_curves(
    drawn: ComputePart, searches: Sequence[ComputePart], evaluate: EvaluateParams
) -> None:
    """Write the curves of one policy."""
    curves.write_curves(drawn, searches, evaluate)


@task(**PLAN, task_run_name="write-compute-report")
def write_compute_report(workspace: Workspace) -> None:
    """Write metrics, tables and pages of the curves."""
    curves.write_pages(workspace)
