"""Base, control and trained policy on the same held-out problems with the same seeds."""

from prefect import flow

from flows.draws import Draw, sample_and_verify
from flows.run_guard import run_guard
from pipeline_lib.stages.stage import Run
from pipeline_lib.telemetry import timed_stage
from tasks.evaluation import compare_policies, policies_to_draw


@flow(name="evaluate", flow_run_name="evaluate-policies")
def evaluate(run: Run) -> None:
    """Draw and judge for each policy, then compare them problem by problem."""
    with run_guard(run):
        sampling = run.params.sample.model_copy(update={"num_paths": run.params.evaluate.num_paths})
        with timed_stage(run.root, "evaluate"):
            for name, policy in policies_to_draw(run).items():
                draw = Draw(
                    name=f"evaluate-{name}",
                    seed_name="evaluate",
                    problems=run.workspace.problems("test"),
                    policy=policy,
                    folders=run.workspace.evaluation(name),
                    params=sampling,
                    stage="evaluate",
                )
                sample_and_verify(run, draw)
            compare_policies(run)
