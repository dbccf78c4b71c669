"""The flow of any system: its stages in order; and of one stage, as DVC runs it."""

from contextlib import nullcontext

from prefect import flow
from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

from flows.parallel.stages import StageRunner
from flows.ray.runners import cluster, task_runner
from flows.run.guard import run_guard
from pipeline_lib.systems.stage import Run, System
from pipeline_lib.systems.table import SYSTEM_OF, SYSTEMS


@flow(name="system")
def all_stages(name: str, run: Run) -> None:
    """All stages of a system in their order."""
    system = SYSTEMS[name]
    with run_guard(system, run):
        for first in system.begins(run.params):
            StageRunner(SYSTEM_OF[first], run).do(first)
        stages = StageRunner(system, run)
        for stage in system.stages:
            stages.do(stage.name)


@flow(name="stage", flow_run_name="{name}")
def one_stage(name: str, run: Run) -> None:
    """One stage alone; finished work is reused."""
    system = SYSTEM_OF[name]
    with run_guard(system, run):
        stages = StageRunner(system, run)
        if system.stage(name).is_one_task:
            stages.do_task(name)
        else:
            stages.do_alone(name)


def run_system(system: System, run: Run) -> None:
    """Run all stages on the runner of the params.

    Raises:
        BadInputError: Ray has too few GPUs or CPUs for the peers of a stage; nothing is started.
    """
    named = all_stages.with_options(
        name=system.name, flow_run_name=f"{system.name}-{system.labels(run.params)[0]}"
    )
    params, execution = run.params, run.params.execution
    if system.num_processes(params) == 1 and not any(
        stage.beside or stage.is_fanned_out(params) for stage in system.stages
    ):
        named(system.name, run)
        return
    with cluster(execution, run.root, processes=system.num_processes(params)):
        if any(stage.asks_peers for stage in system.stages):
            from flows.ray.classmate_peers import check_peers  # noqa: PLC0415 - for such systems alone

            check_peers(run)
        named.with_options(task_runner=task_runner(execution))(system.name, run)


def run_stage(name: str, run: Run) -> None:
    """Run one stage, on the runner of the params if it is fanned out over workers.

    Heartbeats only for such stages and trainings, since their thread delays the end by up to 1 s.
    """
    stage, execution = SYSTEM_OF[name].stage(name), run.params.execution
    count = stage.processes(run.params)
    if stage.is_fanned_out(run.params) or count > 1:
        with cluster(execution, run.root, processes=count):
            one_stage.with_options(task_runner=task_runner(execution))(name, run)
        return
    no_heartbeats = temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None})
    with nullcontext() if stage.trains else no_heartbeats:
        one_stage(name, run)
