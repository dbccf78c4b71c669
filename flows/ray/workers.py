"""Workers of PaCoRe on Ray: one named actor each, which holds an engine or the client of an endpoint.

An actor belongs to the command that created it and ends with it, however that ends. Calls are not sent again
here, nor by Ray: an actor that restarts uses up the retries of the calls that it lost.
"""

import asyncio
import os
import pathlib
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import ray
from ray.exceptions import NodeDiedError, ObjectLostError, RayActorError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from flows.ray.nodes import cluster_watched, ray_connection
from flows.ray.pacore_master import Master
from flows.run.failures import unwrapped_signals
from pipeline_lib.engines.chat_model import ChatFormat, ChatModel, Completion, Decoding, Request
from pipeline_lib.engines.client.client import OpenAIModel, ServerChat
from pipeline_lib.engines.started_engine import started_engine
from pipeline_lib.errors import BadInputError, ReasonloopError, reason_of
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.systems.pacore.settings import require_chat_format
from pipeline_lib.systems.pacore.worker_pool import (
    PATHS_PER_CALL,
    Worker,
    WorkerInfo,
    WorkerLeavingError,
    WorkerLostError,
    WorkerModel,
)

_OF_RAY = "RAY_"
_IN_PROCESS_CALLS = 2
"""At an engine that draws one batch at a time: one in work and one queued."""
_PREFIX = "pacore-worker/"
_LOST = (RayActorError, NodeDiedError, ObjectLostError)
_ANSWER_TIMEOUT_S = 10.0
"""Of an actor that is asked what it is, or for the room of a prompt."""
_POLL_S = 1.0


class WorkerActor:
    """The engine of one worker. Its methods are asynchronous, so that Ray runs calls concurrently."""

    def __init__(
        self,
        node_id: str,
        model: str,
        serve: ServeParams,
        *,
        log_folder: pathlib.Path,
        batch_size: int | None,
    ) -> None:
        """Without an engine yet.

        Args:
            node_id: Its name, which no other worker of the cluster has.
            model: A Hugging Face folder or hub id; at a url, the model's name there. Its name in requests.
            serve: The engine.
            log_folder: For the log of an engine's server.
            batch_size: Paths decoded together by the embedded engine.
        """
        self._node_id = node_id
        self._model = model
        self._serve = serve
        self._opening = partial(
            started_engine, model, serve, log_folder=log_folder, batch_size=batch_size
        )
        self._stack = AsyncExitStack()
        self._engine: ChatModel
        self._format: ChatFormat
        self._draw: Callable[[Request, Decoding], Awaitable[list[Completion]]]
        self._info: WorkerInfo | None = None
        self._leaving = False
        self._calls = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def start(self, folder: pathlib.Path, variables: Mapping[str, str]) -> None:
        """Open the engine with the working folder and the environment of a command; returns once calls are taken.

        Raises:
            BadInputError: no such model, or it has no chat template.
            ReasonloopError: the engine does not start.
        """
        # Ray has set it to 1, for engines as well.
        os.environ.pop("OMP_NUM_THREADS", None)
        os.environ.update(variables)
        os.chdir(folder)
        opening = self._opening()
        # In a thread: the answer to `info` is that there is none yet.
        engine = await asyncio.to_thread(opening.__enter__)
        self._stack.callback(opening.__exit__, None, None, None)
        await self.use(engine)

    async def use(self, engine: ChatModel) -> None:
        """Take calls with an engine that is open. BadInputError: it has no chat template."""
        self._engine = engine
        self._format = require_chat_format(engine.chat_format, self._model)
        calls_together = _IN_PROCESS_CALLS
        if isinstance(engine, OpenAIModel):
            session = await self._stack.enter_async_context(engine.open())
            self._draw = session.complete
            calls_together = max(1, self._serve.concurrency // PATHS_PER_CALL)
        else:
            self._lock = asyncio.Lock()
            self._draw = self._draw_in_process
        self._info = WorkerInfo(
            node_id=self._node_id,
            model=WorkerModel(
                name=self._model,
                identity=engine.identity,
                engine=engine.engine,
                format_digest=self._format.digest,
                is_compact=self._format.is_compact,
            ),
            counts_tokens=engine.room("") is not None,
            calls_together=calls_together,
        )

    async def info(self) -> WorkerInfo | None:
        """None unless it takes calls."""
        return None if self._leaving else self._info

    async def room(self, prompt: str) -> int | None:
        """As `ChatModel.room`."""
        return self._engine.room(self._rendered(prompt))

    async def draw(self, request: Request, decoding: Decoding) -> list[Completion]:
        """The completions of a request, without their tokens, which are most of what would be sent.

        Raises:
            WorkerLeavingError: `leave` was called.
            BadInputError: as the engine.
            EngineDownError: as the engine.
        """
        if self._leaving:
            raise WorkerLeavingError
        self._calls += 1
        self._idle.clear()
        try:
            rendered = replace(request, prompt=self._rendered(request.prompt))
            drawn = await self._draw(rendered, decoding)
        finally:
            self._calls -= 1
            if not self._calls:
                self._idle.set()
        return [replace(one, token_ids=None, token_logprobs=None) for one in drawn]

    async def leave(self) -> None:
        """Take no further calls; returns once those in flight have ended, and the engine is stopped."""
        self._leaving = True
        await self._idle.wait()
        await self._stack.aclose()

    def _rendered(self, prompt: str) -> str:
        return self._format.render(ServerChat.parse(prompt))

    async def _draw_in_process(self, request: Request, decoding: Decoding) -> list[Completion]:
        async with self._lock:
            batch = asyncio.ensure_future(
                asyncio.to_thread(self._engine.complete, [request], decoding)
            )
            try:
                [drawn] = await asyncio.shield(batch)
            finally:
                # A cancellation does not end the thread, and the engine draws one batch at a time.
                while not batch.done():
                    with suppress(asyncio.CancelledError):
                        await asyncio.wait([batch])
        return drawn


@contextmanager
def connected(master: Master, *, node_folder: str | None = None) -> Iterator[None]:
    """A connection to the cluster of ``master``, for the block; its loss ends the process with one line.

    Args:
        master: The head node.
        node_folder: Temporary folder of the node to connect by; None: any on this machine.

    Raises:
        ReasonloopError: there is no Ray, it refuses, or this machine has none of its nodes.
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
def serving_worker(
    node_id: str,
    model: str,
    serve: ServeParams,
    *,
    log_folder: pathlib.Path,
    batch_size: int | None,
) -> Iterator[Callable[[], None]]:
    """A `WorkerActor` on this connection's node, for the block; at its end calls in flight are finished first.

    Its engine gets the variables of this process, which choose GPUs and hold keys; Ray's process has its node's.
    Yields a function that waits a second.

    Raises:
        BadInputError: the cluster has a worker with this node id, or the model cannot be served.
        ReasonloopError: the engine does not start; from the yielded function, the worker has died.
    """
    here = NodeAffinitySchedulingStrategy(
        node_id=ray.get_runtime_context().get_node_id(), soft=False
    )
    options = {"name": f"{_PREFIX}{node_id}", "num_cpus": 0, "scheduling_strategy": here}
    try:
        actor: Any = (
            ray.remote(WorkerActor)
            .options(**options)
            .remote(node_id, model, serve, log_folder=log_folder, batch_size=batch_size)
        )
    except ValueError as error:
        raise BadInputError(
            f"--node-id {node_id}: the cluster has a worker of this name; choose another"
        ) from error
    variables = {name: value for name, value in os.environ.items() if not name.startswith(_OF_RAY)}

    def wait() -> None:
        _result(actor.info.remote())
        time.sleep(_POLL_S)

    try:
        _result(actor.start.remote(pathlib.Path.cwd(), variables))
        try:
            yield wait
        finally:
            with suppress(WorkerLostError):
                _result(actor.leave.remote())
    except WorkerLostError as error:
        raise ReasonloopError(
            f"worker {node_id}: its process has died ({error}); is memory short?"
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
