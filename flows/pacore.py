"""PaCoRe on the policy of a finished run: cached messages, synthesizer and control, evaluation."""

from prefect import flow
from prefect.futures import PrefectFuture

from flows.beside import begin_beside
from flows.fan_out import result_of
from flows.run_guard import run_guard
from flows.runners import cluster, task_runner
from pipeline_lib.stages.pacore import PACORE
from pipeline_lib.stages.stage import Run
from tasks.stages import stage_task


@flow(name="pacore", flow_run_name="pacore-{run.params.pacore.train.method.value}")
def pacore(run: Run) -> None:
    """All stages in their order, the control beside the synthesizer."""
    with run_guard(run):
        begun: dict[str, PrefectFuture[None]] = {}
        for stage in PACORE:
            begun |= begin_beside(stage, PACORE, run, run.params.pacore.train)
            if stage.name in begun:
                result_of(begun[stage.name])
            else:
                stage_task(stage)(stage, run)


def run_pacore(run: Run) -> None:
    """Run all stages on the runner of the params."""
    with cluster(run.params.execution, run.root):
        pacore.with_options(task_runner=task_runner(run.params.execution))(run)
