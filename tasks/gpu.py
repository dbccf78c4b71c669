"""The global concurrency limit `gpu` of the Prefect server: one slot per GPU of this machine.

A step holds as many slots as it sees GPUs, so that two steps share none, in one run or in two. The server
takes slots back some minutes after their holder has died.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from prefect import get_client
from prefect.concurrency.sync import concurrency
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound

from pipeline_lib.engines.gpus import visible_gpus

LIMIT = "gpu"


@contextmanager
def gpu_slot(*, wanted: bool) -> Iterator[None]:
    """Wait for the visible GPUs and hold them for the block; without one, or unless ``wanted``, do nothing.

    Not re-entrant: the second call of one step would wait for the first.
    """
    gpus = visible_gpus() if wanted else 0
    if gpus == 0:
        yield
        return
    _make_limit(gpus)
    # A renewal that fails must not end a training of days: at worst two steps share a GPU.
    with concurrency(LIMIT, occupy=gpus, strict=True, raise_on_lease_renewal_failure=False):
        yield


def _make_limit(gpus: int) -> None:
    """Create the limit, or raise it to ``gpus``, with less of which the step would wait forever."""
    with get_client(sync_client=True) as client:
        try:
            limit = client.read_global_concurrency_limit_by_name(LIMIT).limit
        except ObjectNotFound:
            limit = 0
        if limit < gpus:
            try:
                client.upsert_global_concurrency_limit_by_name(LIMIT, gpus)
            except ObjectAlreadyExists:  # another run was faster
                _make_limit(gpus)
