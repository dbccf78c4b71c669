"""Classmate: problems, base and peers; training with peers and without; their comparison."""

from collections.abc import Callable, Mapping

from prefect import flow

from flows.parallel.beside import do_in_order, trains_in_worker
from flows.ray.classmate_peers import check_resources, opened_peers
from flows.ray.runners import cluster, task_runner
from flows.run.guard import run_guard
from pipeline_lib.systems.classmate.preflight import check_settings
from pipeline_lib.systems.classmate.stages import CLASSMATE
from pipeline_lib.systems.stage import Run
from tasks.classmate import (
    evaluate_with,
    evaluated_peers,
    is_evaluated,
    is_trained,
    train_with,
    trained_peers,
)
from tasks.stages import stage_task


@flow(name="classmate", flow_run_name="classmate-{run.params.classmate.prepare.dataset}")
def classmate(run: Run) -> None:
    """All stages in their order, the plain training beside that with peers."""
    execution, rollouts = run.params.execution, run.params.classmate.train.rollouts
    with run_guard(run):
        in_worker = trains_in_worker(rollouts, execution)
        do_in_order(CLASSMATE, run, in_worker=in_worker, own_flows=OWN_FLOWS)


@flow(name="stage", flow_run_name="{name}")
def classmate_stage(name: str, run: Run) -> None:
    """One stage alone, as DVC runs it."""
    with run_guard(run):
        check_settings(run.params)
        stage = next(stage for stage in CLASSMATE if stage.name == name)
        own = OWN_FLOWS.get(name)
        own(run) if own else stage_task(stage)(stage, run)


def train(run: Run) -> None:
    """Train with peers, which are opened only if there is work left; in the flow's process, which has them."""
    if is_trained(run):
        return
    peers, execution = trained_peers(run), run.params.execution
    with opened_peers(peers, execution, root=run.root) as opened:
        train_with(opened)(run)


def evaluate(run: Run) -> None:
    """Compare the policies, with all peers opened if there is work left."""
    if is_evaluated(run):
        return
    peers, execution = evaluated_peers(run), run.params.execution
    with opened_peers(peers, execution, root=run.root) as opened:
        evaluate_with(opened)(run)


OWN_FLOWS: Mapping[str, Callable[[Run], None]] = {
    "classmate-train": train,
    "classmate-evaluate": evaluate,
}
"""Stages that ask peers."""


def run_classmate(run: Run) -> None:
    """Run all stages on the runner of the params.

    Raises:
        BadInputError: Ray has too few GPUs or CPUs for the peers; nothing is started.
    """
    execution = run.params.execution
    with cluster(execution, run.root):
        check_resources(trained_peers(run), execution)
        check_resources(evaluated_peers(run), execution)
        classmate.with_options(task_runner=task_runner(execution))(run)


def run_classmate_stage(name: str, run: Run) -> None:
    """Run one stage, within the cluster of the params if it asks peers."""
    if name not in OWN_FLOWS:
        classmate_stage(name, run)
        return
    with cluster(run.params.execution, run.root):
        classmate_stage.with_options(task_runner=task_runner(run.params.execution))(name, run)
