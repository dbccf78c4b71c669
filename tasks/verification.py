"""Verification, shard by shard."""

from collections.abc import Sequence

from prefect import task

from pipeline_lib.systems.loop import verify
from pipeline_lib.systems.loop.verify import VerifyPlan, VerifyShard
from tasks.policies import PLAN, SHARD


@task(**PLAN, task_run_name="plan-verification-{plan.label}")
def plan_verification(plan: VerifyPlan) -> list[VerifyShard]:
    """The shards of a plan."""
    return verify.plan_shards(plan)


@task(**SHARD, task_run_name="verify-shard-{shard.index:03d}")
def verify_shard(shard: VerifyShard) -> VerifyShard:
    """Judge one shard."""
    verify.verify(shard)
    return shard


@task(**PLAN, task_run_name="seal-verdicts")
def seal_verdicts(judged: Sequence[VerifyShard]) -> None:
    """Seal the table of verdicts."""
    verify.seal(judged)
