"""The stages of a run: each as a task or a flow of its own, some trainings on a spare worker."""

import pkgutil
from collections.abc import Mapping
from functools import cached_property, partial

from prefect.futures import PrefectFuture

from flows.parallel.fan_out import result_of
from flows.ray.runners import asking_for, has_spare_worker, ray_gpus
from pipeline_lib.systems.stage import Run, Stage, System
from tasks.stages import on_gpu, stage_task, training_task

OWN: Mapping[str, str] = {
    "sample": "flows.parallel.draws:sample_round",
    "verify": "flows.parallel.draws:verify_round",
    "train": "flows.post_training:train_rounds",
    "evaluate": "flows.post_training:evaluate",
    "report": "flows.post_training:report",
    "pacore-evaluate": "flows.parallel.pacore_draws:evaluate",
    "classmate-train": "flows.ray.classmate_peers:train",
    "classmate-evaluate": "flows.ray.classmate_peers:evaluate",
}
"""Flows of stages that are more than one task, as ``module:function`` of a `Run`.

They are imported when they are called, since the imports of the loop take seconds.
"""


class StageRunner:
    """Does stages of one run.

    A training that may run beside another begins with it on a spare worker, and `do` waits for it. On one
    GPU, trainings run one after another, since they share its memory.
    """

    def __init__(self, system: System, run: Run) -> None:
        self._system = system
        self._run = run
        self._begun: dict[str, PrefectFuture[None]] = {}

    # Asked by trainings alone, since Ray and torch take a second to import.
    @cached_property
    def _in_worker(self) -> bool:
        # An engine that a training starts stays with the flow's process, since it would outlive a worker.
        in_process = self._system.rollouts(self._run.params) != "endpoint"
        return in_process and ray_gpus(self._run.params.execution) > 0

    @cached_property
    def _has_spare_worker(self) -> bool:
        execution = self._run.params.execution
        if not has_spare_worker(execution):
            return False
        return ray_gpus(execution) > 1 if self._in_worker else not on_gpu()

    def is_begun(self, name: str) -> bool:
        """True if the stage runs on a spare worker."""
        return name in self._begun

    def do(self, name: str) -> None:
        """Do a stage, and begin those that may run beside it."""
        self.begin_beside(name)
        if name in self._begun:
            result_of(self._begun.pop(name))
        else:
            self.do_alone(name)

    def do_alone(self, name: str) -> None:
        """Do a stage in its turn: its own flow, or its task."""
        if name in OWN:
            pkgutil.resolve_name(OWN[name])(self._run)
        else:
            self.do_task(name)

    def do_task(self, name: str) -> None:
        """Do a stage that is one task; a training in a worker where Ray has GPUs."""
        stage = self._system.stage(name)
        if stage.processes(self._run.params) > 1:
            from flows.ray.training import train_on_processes  # noqa: PLC0415 - seconds to import

            training_task(stage, partial(train_on_processes, stage))(self._run)
        elif stage.trains and self._in_worker:
            result_of(self._submitted(stage))
        else:
            stage_task(stage)(stage, self._run)

    def begin_beside(self, name: str) -> None:
        """Begin the stages that may run beside a stage, if there is a spare worker."""
        beside = [
            stage
            for stage in self._system.stages
            # Those of several processes take the workers one after another.
            if stage.beside == name and stage.processes(self._run.params) == 1
        ]
        if beside and self._has_spare_worker:
            self._begun |= {stage.name: self._submitted(stage) for stage in beside}

    def _submitted(self, stage: Stage) -> PrefectFuture[None]:
        with asking_for(self._run.params.execution, "train", uses_gpu=True):
            return stage_task(stage).submit(stage, self._run)
