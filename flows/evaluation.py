"""Base, control and trained policy on the same held-out problems with the same seeds."""

from prefect import flow

from flows.draws import Draw, sample_and_verify
from flows.run_guard import run_guard
from pipeline_lib.stages.stage import Run
from pipeline_lib.telemetry import timed_stage
from tasks.evaluation import compare_policies, policy_draws


@flow(name="evaluate", flow_run_name="evaluate-policies")
def evaluate(run: Run) -> None:
    """Draw and judge for each policy, then compare them problem by problem."""
    with run_guard(run), timed_stage(run.root, "evaluate"):
        for policy in policy_draws(run):
            draw = Draw(
                name=f"evaluate-{policy.name}",
                seed_name="evaluate",
                problems=run.workspace.problems("test"),
                model=policy.model,
                folders=policy.folders,
                params=policy.sampling,
                stage="evaluate",
            )
            sample_and_verify(run, draw)
        compare_policies(run)
