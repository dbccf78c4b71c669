"""Base, control and trained policy on the same held-out problems with the same seeds."""

from prefect import flow

from flows.parallel.draws import sample_and_verify
from pipeline_lib.systems.stage import Run
from pipeline_lib.telemetry import timed_stage
from tasks.serving import draws_in_workers
from tasks.shards import compare_policies, draws_without_control, policy_draws


@flow(name="evaluate", flow_run_name="evaluate-policies")
def evaluate(run: Run) -> None:
    """Draw and judge for each policy, then compare them problem by problem."""
    with timed_stage(run.root, "evaluate"):
        for draw in policy_draws(run):
            sample_and_verify(run, draw)
        compare_policies(run)


def draw_without_control(run: Run) -> None:
    """Draw and judge for the policies but the control, which is in training meanwhile.

    Workers are free then, since a control often takes longer than the loop. A server would have to be
    started beside the training.
    """
    if draws_in_workers(run.params.serve):
        with timed_stage(run.root, "evaluate", draw="without-control"):
            for draw in draws_without_control(run):
                sample_and_verify(run, draw)
