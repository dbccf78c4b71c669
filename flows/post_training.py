"""The verified loop: sample, verify, build, train, in rounds; then control, evaluation, report."""

from prefect import flow

from flows.parallel.draws import draw_each, sample_and_verify_round
from flows.parallel.stages import StageRunner
from flows.ray.runners import cluster, task_runner
from flows.run.guard import run_guard
from flows.server import server
from pipeline_lib.systems.loop.stages import LOOP
from pipeline_lib.systems.stage import Run
from pipeline_lib.telemetry import timed_stage
from tasks.loop import (
    compare_policies,
    plan_evaluation,
    plan_without_control,
    write_report,
)
from tasks.serving import draws_in_workers


@flow(name="post-training", flow_run_name="post-training-{run.params.prepare.dataset}")
def post_training(run: Run) -> None:
    """The whole loop; work that is done under the same key is reused."""
    with run_guard(LOOP, run):
        stages = StageRunner(LOOP, run)
        stages.do("prepare")
        stages.do("bootstrap")
        sample_and_verify_round(run)
        stages.do("build")
        stages.do("train")  # all later rounds, too
        if stages.is_begun("control"):
            _draw_without_control(run)
        stages.do("control")
        stages.do("evaluate")
        stages.do("report")


def train_rounds(run: Run) -> None:
    """Train in this round, then run all later rounds."""
    StageRunner(LOOP, run).do_task("train")
    for number in range(2, run.params.rounds + 1):
        loop_round.with_options(task_runner=task_runner(run.params.execution))(run.in_round(number))


@flow(name="round", flow_run_name="round-{run.round_number}")
def loop_round(run: Run) -> None:
    """One later round."""
    stages = StageRunner(LOOP, run)
    sample_and_verify_round(run)
    stages.do("build")
    stages.do_task("train")


def _draw_without_control(run: Run) -> None:
    """Draw and judge for the policies but the control, which is in training meanwhile.

    Workers are free then, since a control often takes longer than the loop. A server would have to be
    started beside the training.
    """
    if draws_in_workers(run.params.serve):
        with timed_stage(run.root, "evaluate", draw="without-control"):
            draw_each(plan_without_control(run))


@flow(name="evaluate", flow_run_name="evaluate-policies")
def evaluate(run: Run) -> None:
    """Base, control and trained policy on the same held-out problems with the same seeds, problem by problem."""
    with timed_stage(run.root, "evaluate"):
        draw_each(plan_evaluation(run))
        compare_policies(run)


def report(run: Run) -> None:
    """Metrics, plots, report and model card; the headline as artifacts of the run."""
    with timed_stage(run.root, "report"):
        write_report(run, server.report_url(run.root))


def run_post_training(run: Run) -> None:
    """Run the loop on the runner of the params."""
    with cluster(run.params.execution, run.root, processes=LOOP.num_processes(run.params)):
        post_training.with_options(task_runner=task_runner(run.params.execution))(run)
