"""Workers of PaCoRe on Ray: one named actor each, which holds an engine or the client of an endpoint.

An actor belongs to the command that created it and ends with it, however that ends. Calls are not sent again
here, nor by Ray: an actor that restarts uses up the retries of the calls that it lost.
"""

import asyncio
import logging
import pathlib
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import ray
from ray.exceptions import NodeDiedError, ObjectLostError, RayActorError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from flows.pacore_master import Master
from flows.ray_watch import cluster_watched
from pipeline_lib.collaborative.worker_pool import PATHS_PER_CALL
from pipeline_lib.collaborative.workers import (
    ServedModel,
    Worker,
    WorkerCard,
    WorkerLeavingError,
    WorkerLostError,
)
from pipeline_lib.errors import BadInputError, ReasonloopError, reason_of
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.serving.chat_model import ChatFormat, ChatModel, Completion, Decoding, Request
from pipeline_lib.serving.client import OpenAIModel, ServerChat
from pipeline_lib.serving.started_engine import started_engine

_NAMESPACE = "reasonloop"
_PREFIX = "pacore-worker/"
_LOST = (RayActorError, NodeDiedError, ObjectLostError)
_ANSWER_TIMEOUT_S = 10.0
"""Of an actor that is asked for its card, or for the room of a prompt."""
_POLL_S = 1.0
_IN_PROCESS_CALLS = 2
"""At an engine that draws one batch at a time: one in work and one queued."""


@contextmanager
def connected(master: Master, *, node_folder: str | None = None) -> Iterator[None]:
    """A connection to the cluster of ``master``, for the block; its loss ends the process with one line.

    Args:
        master: The head node.
        node_folder: Temporary folder of the node to connect by; None: any on this machine.

    Raises:
        ReasonloopError: there is no Ray, it refuses, or this machine has no node of it.
    """
    options: dict[str, Any] = {"_temp_dir": node_folder} if node_folder else {}
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(
            address=master.address,
            namespace=_NAMESPACE,
            log_to_driver=False,
            # Ray prints advice about its settings at each start.
            logging_level=logging.ERROR,
            **options,
        )
    except Exception as error:
        raise ReasonloopError(
            f"--master {master.address}: no connection ({reason_of(error)}); run this on a machine with the "
            "master or a worker, with the token of the master's ~/.ray/auth_token in RAY_AUTH_TOKEN"
        ) from error
    # Ray replaces the handler; with its own, SIGTERM would end the command with exit code 15.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)
    try:
        with cluster_watched(f"the master at {master.address}", master.answers):
            yield
    finally:
        ray.shutdown()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOrder:
    """What a worker serves."""

    node_id: str
    """Its name, which no other worker of the cluster has."""
    name: str
    """Of the model, in requests."""
    model: str
    """A Hugging Face folder or hub id; at a url, the model's name there."""
    serve: ServeParams
    log_folder: pathlib.Path
    """For the log of an engine's server."""
    batch_size: int
    """Paths decoded together by the embedded engine."""


class _Actor:
    """The engine of one worker, in a process of Ray. Its methods are asynchronous, so calls run concurrently."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._engine: ChatModel
        self._format: ChatFormat
        self._draw: Callable[[Request, Decoding], Awaitable[list[Completion]]]
        self._card: WorkerCard | None = None
        self._leaving = False
        self._calls = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def start(self, order: WorkerOrder) -> None:
        opening = started_engine(
            order.model, order.serve, log_folder=order.log_folder, batch_size=order.batch_size
        )
        # In a thread: the answer to `card` is that there is none yet.
        engine = await asyncio.to_thread(opening.__enter__)
        self._stack.callback(opening.__exit__, None, None, None)
        if engine.chat_format is None:
            raise BadInputError(
                f"model {order.name}: it has no chat template, and questions are conversations; give an "
                "instruct model, as from `reasonloop import-model`"
            )
        self._engine, self._format = engine, engine.chat_format
        calls_together = _IN_PROCESS_CALLS
        if isinstance(engine, OpenAIModel):
            session = await self._stack.enter_async_context(engine.open())
            self._draw = session.draw
            calls_together = max(1, order.serve.concurrency // PATHS_PER_CALL)
        else:
            self._lock = asyncio.Lock()
            self._draw = self._draw_in_process
        self._card = WorkerCard(
            node_id=order.node_id,
            model=ServedModel(
                name=order.name,
                identity=engine.identity,
                engine=engine.engine,
                format_digest=self._format.digest,
            ),
            counts_tokens=engine.room("") is not None,
            calls_together=calls_together,
        )

    async def card(self) -> WorkerCard | None:
        """None unless it takes calls."""
        return None if self._leaving else self._card

    async def room(self, prompt: str) -> int | None:
        return self._engine.room(self._rendered(prompt))

    async def draw(self, request: Request, decoding: Decoding) -> list[Completion]:
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
        # Tokens are read by nobody there, and are most of what would be sent.
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
            [drawn] = await asyncio.to_thread(self._engine.complete, [request], decoding)
        return drawn


@contextmanager
def serving_worker(order: WorkerOrder) -> Iterator[Callable[[], None]]:
    """A worker on this connection's node, for the block; at its end calls in flight are finished first.

    Yields a function that waits a second.

    Raises:
        BadInputError: the cluster has a worker with this node id, or the model cannot be served.
        ReasonloopError: the engine does not start; from the yielded function, the worker has died.
    """
    actor = _create(order.node_id)
    try:
        _result(actor.start.remote(order))
        try:
            yield lambda: _wait(actor)
        finally:
            with suppress(WorkerLostError):
                _result(actor.leave.remote())
    except WorkerLostError as error:
        raise ReasonloopError(
            f"worker {order.node_id}: its process has died ({error}); is memory short?"
        ) from error
    finally:
        ray.kill(actor)


def _create(node_id: str) -> Any:
    here = NodeAffinitySchedulingStrategy(
        node_id=ray.get_runtime_context().get_node_id(), soft=False
    )
    try:
        return (
            ray.remote(_Actor)
            .options(name=f"{_PREFIX}{node_id}", num_cpus=0, scheduling_strategy=here)
            .remote()
        )
    except ValueError as error:
        raise BadInputError(
            f"--node-id {node_id}: the cluster has a worker of this name; choose another"
        ) from error


def _wait(actor: Any) -> None:
    _result(actor.card.remote())
    time.sleep(_POLL_S)


def _result(reference: Any, *, timeout_s: float | None = None) -> Any:
    try:
        return ray.get(reference, timeout=timeout_s)
    except (*_LOST, ray.exceptions.GetTimeoutError) as error:
        raise WorkerLostError(reason_of(error)) from error
    except RayTaskError as error:
        raise error.cause from None


@dataclass(frozen=True, slots=True)
class RayWorker:
    """Implements Worker on an actor."""

    card: WorkerCard
    actor: Any

    def room(self, prompt: str) -> int | None:
        """As `ChatModel.room`.

        Raises:
            WorkerLostError: no answer.
        """
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


class RayDirectory:
    """Implements Directory on the named actors of the connected cluster."""

    def find(self) -> Mapping[str, Worker]:
        """The workers that take calls now, by the id of their actor."""
        asked: dict[Any, Any] = {}
        for name in ray.util.list_named_actors():
            if name.startswith(_PREFIX):
                # Between the list and here it may have left.
                with suppress(ValueError):
                    actor = ray.get_actor(name)
                    asked[actor.card.remote()] = actor
        answered, _ = (
            ray.wait([*asked], num_returns=len(asked), timeout=_ANSWER_TIMEOUT_S)
            if asked
            else ([], [])
        )
        found = {}
        for reference in answered:
            with suppress(WorkerLostError):
                if card := _result(reference):
                    actor = asked[reference]
                    found[actor._actor_id.hex()] = RayWorker(card, actor)  # noqa: SLF001 - it has no public name
        return found
