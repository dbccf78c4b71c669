"""Workers of PaCoRe on Ray: one named actor each, which holds an engine or the client of an endpoint.

An actor belongs to the command that created it and ends with it, however that ends. Calls are not sent again
here, nor by Ray: an actor that restarts uses up the retries of the calls that it lost.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import NodeDiedError, ObjectLostError, RayActorError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from flows.ray.pacore_actor import WorkerActor, WorkerOrder
from flows.ray.pacore_master import Master
from flows.ray.watch import cluster_watched, ray_connection
from flows.run.failures import unwrapped_signals
from pipeline_lib.engines.chat_model import Completion, Decoding, Request
from pipeline_lib.errors import BadInputError, ReasonloopError, reason_of
from pipeline_lib.systems.pacore.worker_pool import Worker, WorkerInfo, WorkerLostError

_NAMESPACE = "reasonloop"
_PREFIX = "pacore-worker/"
_LOST = (RayActorError, NodeDiedError, ObjectLostError)
_ANSWER_TIMEOUT_S = 10.0
"""Of an actor that is asked what it is, or for the room of a prompt."""
_POLL_S = 1.0


@contextmanager
def connected(master: Master, *, node_folder: str | None = None) -> Iterator[None]:
    """A connection to the cluster of ``master``, for the block; its loss ends the process with one line.

    Args:
        master: The head node.
        node_folder: Temporary folder of the node to connect by; None: any on this machine.

    Raises:
        ReasonloopError: there is no Ray, it refuses, or this machine has no node of it.
    """
    options = {"_temp_dir": node_folder} if node_folder else {}
    failure = (
        f"--master {master.address}: no connection ({{}}); run this on a machine with the "
        "master or a worker, with the token of the master's ~/.ray/auth_token in RAY_AUTH_TOKEN"
    )
    with ExitStack() as stack:
        with _silent_errors():
            stack.enter_context(ray_connection(failure, address=master.address, **options))
        stack.enter_context(cluster_watched(f"the master at {master.address}", master.answers))
        yield


@contextmanager
def _silent_errors() -> Iterator[None]:
    """Discard standard error: Ray's core prints each of its tries to connect."""
    kept = os.dup(2)
    try:
        with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123 - a device
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@contextmanager
def serving_worker(order: WorkerOrder) -> Iterator[Callable[[], None]]:
    """A worker on this connection's node, for the block; at its end calls in flight are finished first.

    Yields a function that waits a second.

    Raises:
        BadInputError: the cluster has a worker with this node id, or the model cannot be served.
        ReasonloopError: the engine does not start; from the yielded function, the worker has died.
    """
    here = NodeAffinitySchedulingStrategy(
        node_id=ray.get_runtime_context().get_node_id(), soft=False
    )
    options = {"name": f"{_PREFIX}{order.node_id}", "num_cpus": 0, "scheduling_strategy": here}
    try:
        actor: Any = ray.remote(WorkerActor).options(**options).remote()
    except ValueError as error:
        raise BadInputError(
            f"--node-id {order.node_id}: the cluster has a worker of this name; choose another"
        ) from error

    def wait() -> None:
        _result(actor.info.remote())
        time.sleep(_POLL_S)

    try:
        _result(actor.start.remote(order))
        try:
            yield wait
        finally:
            with suppress(WorkerLostError):
                _result(actor.leave.remote())
    except WorkerLostError as error:
        raise ReasonloopError(
            f"worker {order.node_id}: its process has died ({error}); is memory short?"
        ) from error
    finally:
        ray.kill(actor)


def _result(reference: Any, *, timeout_s: float | None = None) -> Any:
    try:
        with unwrapped_signals():
            return ray.get(reference, timeout=timeout_s)
    except (*_LOST, ray.exceptions.GetTimeoutError) as error:
        raise WorkerLostError(reason_of(error)) from error
    except RayTaskError as error:
        raise error.cause from None


@dataclass(frozen=True, slots=True)
class RayWorker:
    """Implements Worker on an actor."""

    info: WorkerInfo
    actor: Any

    def room(self, prompt: str) -> int | None:
        """As `ChatModel.room`. WorkerLostError: no answer."""
        room: int | None = _result(self.actor.room.remote(prompt), timeout_s=_ANSWER_TIMEOUT_S)
        return room

    async def draw(self, request: Request, decoding: Decoding) -> list[Completion]:
        """The completions of a request.

        Raises:
            WorkerLostError: the actor or its node was lost.
            WorkerLeavingError: the worker is leaving.
        """
        reference = self.actor.draw.remote(request, decoding)
        try:
            drawn: list[Completion] = await reference
        except asyncio.CancelledError:
            ray.cancel(reference)
            raise
        except _LOST as error:
            raise WorkerLostError(reason_of(error)) from error
        except RayTaskError as error:
            raise error.cause from None
        return drawn


def find_workers() -> Mapping[str, Worker]:
    """The workers that take calls now, of the named actors of the cluster, by the ids of their actors."""
    asked: dict[Any, Any] = {}
    for name in ray.util.list_named_actors():
        if name.startswith(_PREFIX):
            # Between the list and here it may have left.
            with suppress(ValueError):
                actor = ray.get_actor(name)
                asked[actor.info.remote()] = actor
    if not asked:
        return {}
    answered, _ = ray.wait([*asked], num_returns=len(asked), timeout=_ANSWER_TIMEOUT_S)
    found = {}
    for reference in answered:
        with suppress(WorkerLostError):
            if info := _result(reference):
                actor = asked[reference]
                found[actor._actor_id.hex()] = RayWorker(info, actor)  # noqa: SLF001 - it has no public name
    return found
