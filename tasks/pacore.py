"""PaCoRe, model by model."""

from prefect import task

from pipeline_lib.systems.pacore.bodies import evaluation
from pipeline_lib.systems.stage import Run
from tasks.policies import SHARD

evaluated_models = evaluation.evaluated_models


@task(**SHARD, task_run_name="pacore-evaluate-{name}")
def draw_evaluated(run: Run, name: str) -> None:
    """Draw the trials of one evaluated model."""
    evaluation.draw_evaluated(run, name)
