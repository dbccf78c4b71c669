"""The loop: sampling and verification shard by shard, the comparison of the evaluated policies, the report."""

from prefect import task
from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact

from pipeline_lib.engines.known.table import engine_named
from pipeline_lib.systems.loop import benchmark, evaluate, report, sample, verify
from pipeline_lib.systems.loop.draw import Draw, Shard
from pipeline_lib.systems.stage import Run
from tasks.gpu import gpu_slot
from tasks.policies import PLAN, SHARD

plan_evaluation = task(**PLAN, name="plan_evaluation", task_run_name="plan-evaluation")(
    evaluate.policy_draws
)
plan_without_control = task(
    **PLAN, name="plan_without_control", task_run_name="plan-without-control"
)(evaluate.draws_without_control)
plan_sampling = task(**PLAN, name="plan_sampling", task_run_name="plan-sampling-{draw.seed_name}")(
    sample.plan_shards
)
seal_paths = task(**PLAN, name="seal_paths", task_run_name="seal-paths")(sample.seal)
plan_verification = task(
    **PLAN, name="plan_verification", task_run_name="plan-verification-{draw.name}"
)(verify.plan_shards)
seal_verdicts = task(**PLAN, name="seal_verdicts", task_run_name="seal-verdicts")(verify.seal)
plan_benchmark = task(**PLAN, name="plan_benchmark", task_run_name="plan-benchmark")(benchmark.plan)
write_benchmark = task(**PLAN, name="write_benchmark", task_run_name="write-benchmark")(
    benchmark.write_benchmark
)
compare_policies = task(**PLAN, name="compare_policies", task_run_name="compare-policies")(
    evaluate.compare
)


@task(**SHARD, task_run_name="sample-{shard.draw.seed_name}-shard-{shard.index:03d}")
def sample_shard(shard: Shard[Draw]) -> Shard[Draw]:
    """Draw one shard, on a GPU of its own in a worker of Ray."""
    execution, engine = shard.draw.run.params.execution, engine_named(shard.draw.serve.engine)
    with gpu_slot(wanted=engine.in_process and execution.runner == "ray"):
        sample.sample(shard)
    return shard


@task(**SHARD, task_run_name="verify-shard-{shard.index:03d}")
def verify_shard(shard: Shard[Draw]) -> Shard[Draw]:
    """Judge one shard."""
    verify.verify(shard)
    return shard


@task(**PLAN, task_run_name="write-report")
def write_report(run: Run, url: str | None) -> None:
    """Write metrics, plots, report and model card; ``url`` is where the UI finds the report."""
    written = report.write_reports(run)
    create_markdown_artifact(written.summary, key="headline", description=written.title)
    create_table_artifact(
        [dict(zip(written.scores.columns, row, strict=True)) for row in written.scores.rows],
        key="scores",
        description=written.scores.caption,
    )
    create_link_artifact(url or written.report.as_uri(), link_text="report.html", key="report")
