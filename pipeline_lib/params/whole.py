"""All of params.yaml as one frozen model; `params_file` reads it.

The result of a stage depends on its own section, on ``seed`` and on its inputs. ``execution`` changes
no result, so no DVC stage depends on it.
"""

from typing import Annotated, Literal

from pydantic import Field

from pipeline_lib.params.apr import AprParams
from pipeline_lib.params.classmate import ClassmateParams
from pipeline_lib.params.evaluate import EvaluateParams, ReportParams, StrategyParams
from pipeline_lib.params.pacore import PacoreParams
from pipeline_lib.params.paths import (
    BootstrapParams,
    BuildParams,
    PrepareParams,
    SampleParams,
    VerifyParams,
)
from pipeline_lib.params.prr import PrrParams
from pipeline_lib.params.sections import Count, Positive, Section, Whole
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.params.train import TrainParams


class TaskResources(Section):
    """What a Ray task of one kind takes of its node."""

    num_cpus: Positive = 1.0
    num_gpus: Annotated[float, Field(ge=0)] | None = None
    """null: one GPU for work that can use it, if the cluster has any; else none."""
    memory_mb: Count | None = None
    """null: not counted."""


class ResourceParams(Section):
    """Resources by kind of task."""

    sample: TaskResources = TaskResources()
    """Sampling and search."""
    verify: TaskResources = TaskResources()
    train: TaskResources = TaskResources()


class ExecutionParams(Section):
    """Task runner, workers and trackers; never part of a result."""

    runner: Literal["ray", "thread"] = "ray"
    workers: Count = 2
    ray_address: str | None = None
    """Of a running cluster; null: the variable RAY_ADDRESS, else Ray is started on this machine."""
    resources: ResourceParams = ResourceParams()
    train_retries: Whole = 2
    """Losses of a process that a training on several survives; all processes resume from the newest checkpoint."""
    report_to: tuple[str, ...] = ()
    """Experiment trackers of trainings: dvclive, tensorboard, wandb, trackio and others."""
    run_name: Annotated[str, Field(pattern=r"^\w[\w.-]*$")] | None = None
    """Begins the names that trainings have in trackers, and of their folders; null: the phase alone, as in prr-control."""


class Params(Section):
    """All of params.yaml."""

    seed: Whole = 7
    rounds: Count = 2
    prepare: PrepareParams = PrepareParams()
    bootstrap: BootstrapParams = BootstrapParams()
    sample: SampleParams = SampleParams()
    verify: VerifyParams = VerifyParams()
    build: BuildParams = BuildParams()
    train: TrainParams = TrainParams()
    evaluate: EvaluateParams = EvaluateParams()
    test_time: StrategyParams = StrategyParams()
    report: ReportParams = ReportParams()
    serve: ServeParams = ServeParams()
    pacore: PacoreParams = PacoreParams()
    prr: PrrParams = PrrParams()
    apr: AprParams = AprParams()
    classmate: ClassmateParams = ClassmateParams()
    execution: ExecutionParams = ExecutionParams()
