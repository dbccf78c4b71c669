"""The global concurrency limit `gpu` of the Prefect server: one step at a time holds this machine's GPUs.

It orders runs that share a server; within a run such steps follow one another anyway. The server takes
the slot back some minutes after its holder has died.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from prefect import get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate
from prefect.concurrency.sync import concurrency
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound

from pipeline_lib.serving.gpus import visible_gpus

LIMIT = "gpu"


@contextmanager
def gpu_slot(*, wanted: bool) -> Iterator[None]:
    """Wait for the slot and hold it for the block; without a GPU, or unless ``wanted``, do nothing.

    Not re-entrant: a second slot in one run would wait for the first.
    """
    if not wanted or visible_gpus() == 0:
        yield
        return
    _make_limit()
    # A renewal that fails must not end a training of days: at worst two runs share the GPU.
    with concurrency(LIMIT, strict=True, raise_on_lease_renewal_failure=False):
        yield


def _make_limit() -> None:
    """Create the limit if it is missing; one that a person has changed is kept."""
    with get_client(sync_client=True) as client:
        try:
            client.read_global_concurrency_limit_by_name(LIMIT)
        except ObjectNotFound:
            _create(client)


def _create(client: SyncPrefectClient) -> None:
    try:
        client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=LIMIT, limit=1))
    except ObjectAlreadyExists:  # another run was faster
        return
