"""The engine of a worker as a class of which Ray makes an actor; Ray is not imported."""

import asyncio
import os
import pathlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace

from pipeline_lib.engines.chat_model import ChatFormat, ChatModel, Completion, Decoding, Request
from pipeline_lib.engines.client.client import OpenAIModel, ServerChat
from pipeline_lib.engines.started_engine import started_engine
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.systems.pacore.settings import require_chat_format
from pipeline_lib.systems.pacore.worker_pool import PATHS_PER_CALL
from pipeline_lib.systems.pacore.workers import WorkerCard, WorkerLeavingError, WorkerModel

_OF_RAY = "RAY_"
_IN_PROCESS_CALLS = 2
"""At an engine that draws one batch at a time: one in work and one queued."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOrder:
    """Name, model, engine settings and environment of a worker."""

    node_id: str
    """Its name, which no other worker of the cluster has."""
    model: str
    """A Hugging Face folder or hub id; at a url, the model's name there. Its name in requests."""
    serve: ServeParams
    log_folder: pathlib.Path
    """For the log of an engine's server."""
    batch_size: int
    """Paths decoded together by the embedded engine."""
    working_folder: pathlib.Path
    """Of the command, for relative paths."""
    variables: Mapping[str, str] = field(repr=False)
    """`own_variables` of the command, which choose GPUs and hold keys; Ray's process has those of its node."""


def own_variables() -> dict[str, str]:
    """The environment of this process, without the variables of Ray."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_OF_RAY)}


class WorkerActor:
    """The engine of one worker. Its methods are asynchronous, so that Ray runs calls concurrently."""

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
        """Open the engine; returns once calls are taken.

        Raises:
            BadInputError: no such model, or it has no chat template.
            ReasonloopError: the engine does not start.
        """
        # Ray has set it to 1, for engines as well.
        os.environ.pop("OMP_NUM_THREADS", None)
        os.environ.update(order.variables)
        os.chdir(order.working_folder)
        opening = started_engine(
            order.model, order.serve, log_folder=order.log_folder, batch_size=order.batch_size
        )
        # In a thread: the answer to `card` is that there is none yet.
        engine = await asyncio.to_thread(opening.__enter__)
        self._stack.callback(opening.__exit__, None, None, None)
        await self.use(engine, order)

    async def use(self, engine: ChatModel, order: WorkerOrder) -> None:
        """Take calls with an engine that is open. BadInputError: it has no chat template."""
        self._engine = engine
        self._format = require_chat_format(engine.chat_format, order.model)
        calls_together = _IN_PROCESS_CALLS
        if isinstance(engine, OpenAIModel):
            session = await self._stack.enter_async_context(engine.open())
            self._draw = session.complete
            calls_together = max(1, order.serve.concurrency // PATHS_PER_CALL)
        else:
            self._lock = asyncio.Lock()
            self._draw = self._draw_in_process
        self._card = WorkerCard(
            node_id=order.node_id,
            model=WorkerModel(
                name=order.model,
                identity=engine.identity,
                engine=engine.engine,
                format_digest=self._format.digest,
                is_compact=self._format.is_compact,
            ),
            counts_tokens=engine.room("") is not None,
            calls_together=calls_together,
        )

    async def card(self) -> WorkerCard | None:
        """None unless it takes calls."""
        return None if self._leaving else self._card

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
