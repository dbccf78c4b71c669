"""PaCoRe, model by model."""

from prefect import task

from pipeline_lib.collaborative import stages
from pipeline_lib.stages.stage import Run
from tasks.policies import SHARD

evaluated_models = stages.evaluated_models


@task(**SHARD, task_run_name="pacore-evaluate-{name}")
def draw_evaluated(run: Run, name: str) -> None:
    """Draw the trials of one evaluated model."""
    stages.draw_evaluated(run, name)
