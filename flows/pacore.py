"""PaCoRe on the policy of a finished run: cached messages, synthesizer, evaluation."""

from prefect import flow

from flows.run_guard import run_guard
from pipeline_lib.stages.pacore import PACORE
from pipeline_lib.stages.stage import Run
from tasks.stages import stage_task


@flow(name="pacore", flow_run_name="pacore-{run.params.pacore.train.method.value}")
def pacore(run: Run) -> None:
    """All stages in their order."""
    with run_guard(run):
        for stage in PACORE:
            stage_task(stage)(stage, run)
