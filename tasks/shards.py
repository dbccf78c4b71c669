"""Sampling and verification shard by shard, and the comparison of the evaluated policies."""

from prefect import task

from pipeline_lib.systems.loop import evaluate, sample, verify
from pipeline_lib.systems.loop.draw import Draw, Shard
from tasks.policies import PLAN, SHARD

policy_draws = evaluate.policy_draws
draws_without_control = evaluate.draws_without_control

plan_sampling = task(**PLAN, name="plan_sampling", task_run_name="plan-sampling-{draw.seed_name}")(
    sample.plan_shards
)
seal_paths = task(**PLAN, name="seal_paths", task_run_name="seal-paths")(sample.seal)
plan_verification = task(
    **PLAN, name="plan_verification", task_run_name="plan-verification-{draw.name}"
)(verify.plan_shards)
seal_verdicts = task(**PLAN, name="seal_verdicts", task_run_name="seal-verdicts")(verify.seal)
compare_policies = task(**PLAN, name="compare_policies", task_run_name="compare-policies")(
    evaluate.compare
)


@task(**SHARD, task_run_name="sample-{shard.draw.seed_name}-shard-{shard.index:03d}")
def sample_shard(shard: Shard[Draw]) -> Shard[Draw]:
    """Draw one shard."""
    sample.sample(shard)
    return shard


@task(**SHARD, task_run_name="verify-shard-{shard.index:03d}")
def verify_shard(shard: Shard[Draw]) -> Shard[Draw]:
    """Judge one shard."""
    verify.verify(shard)
    return shard
