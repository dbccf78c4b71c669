"""Sampling, shard by shard."""

from collections.abc import Sequence

from prefect import task

from pipeline_lib.systems.loop import sample
from pipeline_lib.systems.loop.sample import SamplePlan, SampleShard
from tasks.policies import PLAN, SHARD


@task(**PLAN, task_run_name="plan-sampling-{plan.draw}")
def plan_sampling(plan: SamplePlan) -> list[SampleShard]:
    """The shards of a plan."""
    return sample.plan_shards(plan)


@task(**SHARD, task_run_name="sample-{shard.plan.draw}-shard-{shard.index:03d}")
def sample_shard(shard: SampleShard) -> SampleShard:
    """Draw one shard."""
    sample.sample(shard)
    return shard


@task(**PLAN, task_run_name="seal-paths")
def seal_paths(drawn: Sequence[SampleShard]) -> None:
    """Seal the table of paths."""
    sample.seal(drawn)
