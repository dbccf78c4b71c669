"""The comparison of the evaluated policies."""

from prefect import task

from pipeline_lib.systems.loop import evaluate
from pipeline_lib.systems.stage import Run
from tasks.policies import PLAN

policy_draws = evaluate.policy_draws
draws_without_control = evaluate.draws_without_control


@task(**PLAN, task_run_name="compare-policies")
def compare_policies(run: Run) -> None:
    """Write the result of the evaluation."""
    evaluate.compare(run)
