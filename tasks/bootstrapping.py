"""The base policy: made from scratch once, or a pointer to a model that is given."""

from prefect import task

from pipeline_lib.params.paths import BootstrapParams
from pipeline_lib.problems.worked import worked_problems
from pipeline_lib.records import Problem
from pipeline_lib.sampling.worked import solution_rows
from pipeline_lib.serving.identity import model_identity
from pipeline_lib.storage import manifests, shards
from pipeline_lib.storage.stages import stage_key
from pipeline_lib.storage.workspace import Workspace
from pipeline_lib.telemetry import record_work
from pipeline_lib.training.bootstrap import make_base_policy
from tasks.policies import TRAINING


@task(**TRAINING, task_run_name="bootstrap")
def bootstrap_policy(workspace: Workspace, params: BootstrapParams, *, seed: int) -> None:
    """Make ``models/base``, unless it is there already."""
    problems = workspace.problems("bootstrap")
    key = stage_key(
        __name__,
        params={**params.model_dump(), "seed": seed},
        inputs={
            "problems": manifests.read_manifest(problems).digest,
            "model": model_identity(params.model) if params.model else "",
        },
    )
    if manifests.current(workspace.base, kind="model", key=key):
        return
    # What chooses the control's checkpoint must be new to the base, too.
    worked = worked_problems(
        (Problem.from_row(row) for row in shards.iter_table(problems)),
        validation_fraction=params.validation_fraction,
        seed=seed,
    )
    make_base_policy(
        solution_rows(worked.train, None),
        workspace.base,
        params=params,
        seed=seed,
        key=key,
        progress=lambda step, total, _: record_work(
            workspace.root, "bootstrap", done=step, total=total, unit="step"
        ),
    )
