"""The control: the base trained on as long without the loop, beside the loop where that is free."""

from prefect import flow
from prefect.futures import PrefectFuture

from flows.runners import RunSettings, has_spare_worker
from tasks.control import ControlJob, train_control_policy, trains_on_gpu


@flow(name="control", flow_run_name="control")
def control(settings: RunSettings) -> None:
    """Train the control in this process."""
    train_control_policy(_job(settings))


def begin_control(settings: RunSettings) -> PrefectFuture[None] | None:
    """Start the control on a worker of its own, if there is one; it is read by :func:`end_control`."""
    params = settings.params
    if params.train.control and has_spare_worker(params.execution) and not trains_on_gpu():
        return train_control_policy.submit(_job(settings))
    return None


def end_control(settings: RunSettings, begun: PrefectFuture[None] | None) -> None:
    """Wait for a control that was begun; train it now if there is none."""
    if begun is None:
        control(settings)
    else:
        begun.result()


def _job(settings: RunSettings) -> ControlJob:
    params = settings.params
    return ControlJob(
        root=settings.root,
        rounds=params.rounds,
        bootstrap=params.bootstrap,
        train=params.train,
        seed=params.seed,
        report_to=params.execution.report_to,
    )
