"""The verified loop: the stages of `LOOP` in their order; `train` runs all later rounds."""

from collections.abc import Callable, Mapping

from prefect import flow
from prefect.futures import PrefectFuture

from flows.evaluation import draw_without_control, evaluate
from flows.parallel.beside import begin_beside, trains_in_worker
from flows.parallel.draws import sample_and_verify_round, sample_round, verify_round
from flows.parallel.fan_out import result_of
from flows.ray.runners import asking_for, cluster, task_runner
from flows.run.guard import run_guard
from flows.server import server
from pipeline_lib.systems.loop.stages import LOOP
from pipeline_lib.systems.stage import Run, Stage
from pipeline_lib.telemetry import timed_stage
from tasks.reporting import write_report
from tasks.stages import stage_task

StageFlows = Mapping[str, Callable[[Run], None]]


@flow(name="post-training", flow_run_name="post-training-{run.params.prepare.dataset}")
def post_training(run: Run) -> None:
    """The whole loop; work that is done under the same key is reused."""
    with run_guard(run):
        begun: dict[str, PrefectFuture[None]] = {}
        for stage in LOOP:
            begun |= begin_beside(stage, LOOP, run, in_worker=_in_worker(run))
            if stage.name in begun:
                if stage.name in MEANWHILE:
                    MEANWHILE[stage.name](run)
                result_of(begun[stage.name])
            else:
                _do(stage, run, {**OWN_FLOWS, **STREAMED})


@flow(name="round", flow_run_name="round-{run.round_number}")
def loop_round(run: Run) -> None:
    """The stages of one later round."""
    for stage in LOOP:
        if stage.in_rounds:
            _do(stage, run, STREAMED)


@flow(name="stage", flow_run_name="{name}")
def one_stage(name: str, run: Run) -> None:
    """One stage alone, as DVC runs it. A stage that is one task runs by `one_task_stage`."""
    with run_guard(run):
        _do(next(stage for stage in LOOP if stage.name == name), run, OWN_FLOWS)


def train_rounds(run: Run) -> None:
    """Train in this round, then run all later rounds."""
    train = next(stage for stage in LOOP if stage.name == "train")
    _do(train, run, {})
    for number in range(2, run.params.rounds + 1):
        loop_round.with_options(task_runner=task_runner(run.params.execution))(run.in_round(number))


def report(run: Run) -> None:
    """Metrics, plots, report and model card; the headline as artifacts of the run."""
    with timed_stage(run.root, "report"):
        write_report(run, server.report_url(run.root))


OWN_FLOWS: StageFlows = {
    "sample": sample_round,
    "verify": verify_round,
    "train": train_rounds,
    "evaluate": evaluate,
    "report": report,
}
"""Stages of the loop that are more than one task; `train` also runs all later rounds."""
MEANWHILE: StageFlows = {"control": draw_without_control}
"""Work on later stages that does not wait for a stage that runs in a worker."""
STREAMED: StageFlows = {"sample": sample_and_verify_round, "verify": lambda _run: None}
"""The flow of `sample` where `verify` follows: it judges each shard as soon as it is drawn."""


def _do(stage: Stage, run: Run, flows: StageFlows) -> None:
    if stage.name in flows:
        flows[stage.name](run)
    elif stage.trains and _in_worker(run):
        with asking_for(run.params.execution, "train", uses_gpu=True):
            result_of(stage_task(stage).submit(stage, run))
    else:
        stage_task(stage)(stage, run)


def _in_worker(run: Run) -> bool:
    return trains_in_worker(run.params.train.rollouts, run.params.execution)


def run_post_training(run: Run) -> None:
    """Run the loop on the runner of the params."""
    with cluster(run.params.execution, run.root):
        post_training.with_options(task_runner=task_runner(run.params.execution))(run)


def run_stage(name: str, run: Run) -> None:
    """Run one stage on the runner of the params."""
    stage = next(stage for stage in LOOP if stage.name == name)
    fans_out = stage.fans_out == "always" or (
        stage.fans_out == "in later rounds" and run.params.rounds > 1
    )
    if not fans_out:
        one_stage(name, run)
        return
    with cluster(run.params.execution, run.root):
        one_stage.with_options(task_runner=task_runner(run.params.execution))(name, run)
