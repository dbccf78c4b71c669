"""Base, control and trained policy on the same held-out problems with the same seeds."""

from collections.abc import Iterable

from prefect import flow

from flows.parallel.draws import Draw, sample_and_verify
from pipeline_lib.systems.loop.evaluate import PolicyDraw
from pipeline_lib.systems.stage import Run
from pipeline_lib.telemetry import timed_stage
from tasks.serving import draws_in_workers
from tasks.shards import compare_policies, draws_without_control, policy_draws


@flow(name="evaluate", flow_run_name="evaluate-policies")
def evaluate(run: Run) -> None:
    """Draw and judge for each policy, then compare them problem by problem."""
    with timed_stage(run.root, "evaluate"):
        _draw_all(run, policy_draws(run))
        compare_policies(run)


def draw_without_control(run: Run) -> None:
    """Draw and judge for the policies but the control, which is in training meanwhile.

    Workers are free then, since a control often takes longer than the loop. A server would have to be
    started beside the training.
    """
    if draws_in_workers(run.params.serve):
        with timed_stage(run.root, "evaluate", draw="without-control"):
            _draw_all(run, draws_without_control(run))


def _draw_all(run: Run, policies: Iterable[PolicyDraw]) -> None:
    for policy in policies:
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
