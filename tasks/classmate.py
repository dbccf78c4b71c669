"""Stages of Classmate that ask peers. Tasks are made around the peers, which are no parameters for Prefect."""

from collections.abc import Callable, Sequence

from prefect import task

from pipeline_lib.systems.classmate.bodies import evaluation, train
from pipeline_lib.systems.classmate.peer import Peer
from pipeline_lib.systems.stage import Run
from pipeline_lib.telemetry import timed_stage
from tasks.gpu import gpu_slot
from tasks.policies import TRAINING

is_trained = train.is_trained
is_evaluated = evaluation.is_evaluated
trained_peers = train.trained_peers
evaluated_peers = evaluation.evaluated_peers


def train_with(peers: Sequence[Peer]) -> Callable[[Run], None]:
    """The task that trains with ``peers``."""

    @task(**TRAINING, name="classmate-train", task_run_name="classmate-train")
    def train_task(run: Run) -> None:
        with gpu_slot(wanted=True), timed_stage(run.root, "classmate-train"):
            train.train(run, peers)

    return train_task


def evaluate_with(peers: Sequence[Peer]) -> Callable[[Run], None]:
    """The task that evaluates with ``peers``."""

    @task(**TRAINING, name="classmate-evaluate", task_run_name="classmate-evaluate")
    def evaluate_task(run: Run) -> None:
        with gpu_slot(wanted=True), timed_stage(run.root, "classmate-evaluate"):
            evaluation.evaluate(run, peers)

    return evaluate_task
