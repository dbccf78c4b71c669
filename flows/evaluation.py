"""Base, control and trained policy on the same held-out problems with the same seeds; the report."""

from prefect import flow

from flows.runners import RunSettings
from flows.sample_and_verify import Draw, run_draw
from pipeline_lib.telemetry import timed_stage
from tasks.evaluation import compare_policies, policies_to_draw
from tasks.reporting import write_reports


@flow(name="evaluate", flow_run_name="evaluate-policies")
def evaluate(settings: RunSettings) -> None:
    """Draw and judge for each policy, then compare them problem by problem."""
    params, workspace = settings.params, settings.workspace
    control = params.train.control
    policies = policies_to_draw(workspace, rounds=params.rounds, control=control)
    sampling = params.sample.model_copy(update={"num_paths": params.evaluate.num_paths})
    with timed_stage(settings.root, "evaluate"):
        for name, policy in policies.items():
            draw = Draw(
                name=f"evaluate-{name}",
                seed_name="evaluate",
                problems=workspace.problems("test"),
                policy=policy,
                folders=workspace.evaluation(name),
                params=sampling,
                within="evaluate",
            )
            run_draw(settings, draw)
        compare_policies(workspace, params.evaluate, control=control, seed=params.seed)


@flow(name="report", flow_run_name="report")
def report(settings: RunSettings) -> None:
    """metrics.json, plots and report.html, and the headline as artifacts of the run."""
    with timed_stage(settings.root, "report"):
        write_reports(settings.workspace, settings.params)
