"""Calls to workers in one event loop: each goes to the least loaded worker of its model, a lost one to another."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from pipeline_lib.engines.chat_model import Completion, Decoding, Request
from pipeline_lib.engines.client.connection import EngineDownError
from pipeline_lib.engines.client.session import OnDrawn, gather_all, ignore_drawn
from pipeline_lib.engines.client.stream_parsing import Delta, OnDelta
from pipeline_lib.systems.pacore.worker_table import ActiveWorker, Patience, WorkerTable
from pipeline_lib.systems.pacore.workers import WorkerLeavingError, WorkerLostError, WorkerModel

PATHS_PER_CALL = 8
"""Most paths of a request that one worker draws together. Fixed: an engine rounds by the size of its batch."""
POLL_S = 1.0
_RETRIES = 2
"""Of a call whose worker was lost."""


@dataclass(kw_only=True)
class PoolSession:
    """Concurrent calls in one event loop."""

    table: WorkerTable
    served: Sequence[WorkerModel]
    _changed: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    """Set, and replaced, when a worker has joined or has room for a call."""
    _following: asyncio.Task[None] | None = field(init=False, default=None)

    async def draw(
        self, request: Request, decoding: Decoding, on_drawn: OnDrawn = ignore_drawn
    ) -> list[Completion]:
        """The completions of a request, in the order of its seeds; ``on_drawn`` has those of a worker's call.

        Raises:
            BadInputError: as the engine of a worker.
            EngineDownError: the engine of a worker does not answer, or a model had no worker for
                `WorkerTable.patience_s`.
        """
        places = range(0, len(request.seeds), PATHS_PER_CALL)
        parts = [
            replace(request, seeds=request.seeds[start : start + PATHS_PER_CALL])
            for start in places
        ]
        drawn = await gather_all([self._draw_part(part, decoding, on_drawn) for part in parts])
        return [one for part in drawn for one in part]

    async def stream(self, request: Request, decoding: Decoding, on_delta: OnDelta) -> Completion:
        """The completion of a request with one seed; its text is delivered whole, as workers return it.

        Raises:
            BadInputError: as `draw`.
            EngineDownError: as `draw`.
        """
        [drawn] = await self.draw(request, decoding)
        if drawn.error is None:
            on_delta(Delta(text=drawn.text, reasoning=drawn.reasoning or ""))
        return drawn

    async def check(self) -> None:
        """Return if each model has a worker.

        Raises:
            EngineDownError: one has none.
        """
        for model in self.served:
            if not self.table.workers_of(model):
                raise EngineDownError(f"no worker of {model.name}")

    @property
    def retries(self) -> int:
        """Calls that were sent to another worker."""
        return self.table.lost_calls

    async def _draw_part(
        self, request: Request, decoding: Decoding, on_drawn: OnDrawn
    ) -> list[Completion]:
        """The completions of one call, which pays for its prompt."""
        drawn = [
            # An engine in the worker's process opens no HTTP request.
            replace(one, model=request.model, opens_request=place == 0 or one.opens_request)
            for place, one in enumerate(await self._call(request, decoding))
        ]
        on_drawn(drawn)
        return drawn

    async def _call(self, request: Request, decoding: Decoding) -> list[Completion]:
        """The completions of one call; after the loss of too many workers, with errors."""
        lost = 0
        while lost <= _RETRIES:
            active = await self._acquire(self._model_of(request))
            try:
                drawn = await active.worker.draw(request, decoding)
            except WorkerLeavingError:
                self.table.drop(active)
            except WorkerLostError:
                self.table.drop(active)
                self.table.lost_calls += 1
                lost += 1
            else:
                self.table.calls_by_worker[active.worker.card.node_id] += 1
                return drawn
            finally:
                active.calls -= 1
                self._announce()
        return [Completion.failed(f"its worker was lost {lost} times")] * len(request.seeds)

    def _model_of(self, request: Request) -> WorkerModel:
        [model, *_] = [one for one in self.served if request.model in {None, one.name}]
        return model

    async def _acquire(self, model: WorkerModel) -> ActiveWorker:
        """The least loaded worker of a model, once one has room for a call."""
        patience = Patience(model=model, seconds=self.table.patience_s)
        while True:
            workers = self.table.workers_of(model)
            free = [one for one in workers if one.load < 1]
            if free:
                chosen = min(free, key=lambda one: (one.load, one.id))
                chosen.calls += 1
                return chosen
            if workers:
                patience.renew()
            patience.check()
            await self._change()

    async def _change(self) -> None:
        """Wait for a change, or for the next poll.

        Raises:
            Exception: the search for workers has failed.
        """
        if self._following is not None and self._following.done():
            self._following.result()
        try:
            async with asyncio.timeout(POLL_S):
                await self._changed.wait()
        except TimeoutError:
            return

    def _announce(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Look for workers within the block."""
        self._following = asyncio.create_task(self._follow())
        try:
            yield
        finally:
            self._following.cancel()

    async def _follow(self) -> None:
        while True:
            self.table.update(await asyncio.to_thread(self.table.directory.find))
            self._announce()
            await asyncio.sleep(POLL_S)
