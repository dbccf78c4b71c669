"""Global concurrency limits of the Prefect server, one for each GPU, by the GPU's own id.

A step holds the GPUs that it sees: all of the machine in the flow's process, its own in a worker of Ray. So two steps
share none, in one run or in two, and steps on different GPUs do not wait for each other. The server takes slots back
some minutes after their holder has died.
"""

import pathlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from prefect import get_client
from prefect.concurrency.sync import concurrency
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound

from pipeline_lib.engines.gpus import gpu_ids, visible_gpus


def machine_gpus() -> int:
    """GPUs of this machine that the run sees; without a driver torch is not asked, since its import takes seconds."""
    devices = pathlib.Path("/dev")
    has_driver = (devices / "dxg").exists() or any(devices.glob("nvidia[0-9]*"))
    return visible_gpus() if has_driver else 0


@contextmanager
def gpu_slot(*, wanted: bool, gpus: Sequence[int] | None = None) -> Iterator[None]:
    """Wait for GPUs and hold them for the block; without one, or unless ``wanted``, do nothing.

    ``gpus`` are numbers of visible ones; None: all of them. Not re-entrant: the second call of one step would wait for
    the first.
    """
    ids = gpu_ids() if wanted else []
    limits = [f"gpu {one}" for number, one in enumerate(ids) if gpus is None or number in gpus]
    if not limits:
        yield
        return
    for limit in limits:
        _make_limit(limit)
    # A renewal that fails must not end a training of days: at worst two steps share a GPU.
    with concurrency(limits, occupy=1, strict=True, raise_on_lease_renewal_failure=False):
        yield


def _make_limit(name: str) -> None:
    with get_client(sync_client=True) as client:
        try:
            client.read_global_concurrency_limit_by_name(name)
        except ObjectNotFound:
            try:
                client.upsert_global_concurrency_limit_by_name(name, 1)
            except ObjectAlreadyExists:  # another run was faster
                return
