"""ChatModel over workers: each call goes to the least loaded worker of its model, a lost one to another.

Workers join and leave while calls are drawn. What is drawn depends on the requests alone: they are cut into
parts of one size, whatever the number of workers. Processes and machines are outside, behind `Directory`.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from pipeline_lib.collaborative.workers import (
    Directory,
    Worker,
    WorkerLeavingError,
    WorkerLostError,
    WorkerModel,
    served_models,
)
from pipeline_lib.records import FinishReason
from pipeline_lib.serving.chat_model import ChatFormat, Completion, Decoding, Request
from pipeline_lib.serving.client import ServerChat
from pipeline_lib.serving.connection import EngineDownError
from pipeline_lib.serving.session import gather_all
from pipeline_lib.storage.files import digest_json

PATHS_PER_CALL = 8
"""Most paths of a request that one worker draws together. Fixed: an engine rounds by the size of its batch."""
_RETRIES = 2
"""Of a call whose worker was lost."""
_POLL_S = 1.0


@dataclass(kw_only=True)
class _Active:
    """A worker in use."""

    id: str
    worker: Worker
    calls: int = 0
    """In flight."""

    @property
    def load(self) -> float:
        return self.calls / self.worker.card.calls_together


@dataclass(kw_only=True)
class WorkerPool:
    """Implements ChatModel over the workers of one or several models."""

    directory: Directory
    served: Sequence[WorkerModel]
    """Path i of a round is drawn by model i mod m; the first one synthesizes."""
    patience_s: float
    """Longest time without any worker of a model."""
    adapter: str | None = None
    arithmetic: str | None = None
    lost_calls: int = 0
    """Calls whose worker was lost."""
    calls_by_worker: Counter[str] = field(default_factory=Counter)
    """Answered calls by node id."""
    _active: dict[str, _Active] = field(init=False, default_factory=dict)

    @property
    def models(self) -> Sequence[str]:
        """Their names if there are several; empty for one."""
        return [one.name for one in self.served] if len(self.served) > 1 else []

    @property
    def identity(self) -> str:
        """Of the model; a digest over several."""
        [first, *others] = [one.identity for one in self.served]
        return digest_json([first, *others]) if others else first

    @property
    def engine(self) -> str:
        """The engines of the workers."""
        return f"workers with {', '.join(one.engine for one in self.served)}"

    @property
    def chat_format(self) -> ChatFormat:
        """Messages, which each worker renders by the template of its model."""
        return ServerChat(
            digest=", ".join(one.format_digest for one in self.served),
            is_compact=self.served[0].is_compact,
        )

    def room(self, prompt: str) -> int | None:
        """The smallest room of the models; None: unknown for all.

        Raises:
            EngineDownError: as `PoolSession.draw`.
        """
        rooms = [self._room(one, prompt) for one in self.served]
        return min((room for room in rooms if room is not None), default=None)

    def _room(self, model: WorkerModel, prompt: str) -> int | None:
        patience = _Patience(model=model, seconds=self.patience_s)
        while True:
            for active in self.workers_of(model):
                if not active.worker.card.counts_tokens:
                    return None
                try:
                    return active.worker.room(prompt)
                except WorkerLostError:
                    self.drop(active)
            patience.check()
            time.sleep(_POLL_S)
            self.update(self.directory.find())

    def complete(self, requests: Sequence[Request], decoding: Decoding) -> list[list[Completion]]:
        """Draw all completions, in the order of requests and seeds.

        Raises:
            BadInputError: as the engine of a worker.
            EngineDownError: as `PoolSession.draw`.
        """
        return asyncio.run(self._complete(requests, decoding))

    async def _complete(
        self, requests: Sequence[Request], decoding: Decoding
    ) -> list[list[Completion]]:
        async with self.open() as session:
            return await gather_all([session.draw(request, decoding) for request in requests])

    @asynccontextmanager
    async def open(self) -> AsyncIterator["PoolSession"]:
        """Concurrent calls; within the block workers that join are used."""
        session = PoolSession(pool=self)
        async with session.following():
            yield session

    def workers_of(self, model: WorkerModel) -> list[_Active]:
        """The workers of a model that are in use."""
        return [one for one in self._active.values() if one.worker.card.model == model]

    def update(self, found: Mapping[str, Worker]) -> None:
        """Use these workers; others have left."""
        known = self._active
        self._active = {
            name: known.get(name) or _Active(id=name, worker=worker)
            for name, worker in found.items()
        }

    def drop(self, active: _Active) -> None:
        """Do not use a worker until it is found again."""
        self._active.pop(active.id, None)


@dataclass(kw_only=True)
class PoolSession:
    """Concurrent calls in one event loop."""

    pool: WorkerPool
    _changed: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    """Set, and replaced, when a worker has joined or has room for a call."""
    _following: asyncio.Task[None] | None = field(init=False, default=None)

    async def draw(self, request: Request, decoding: Decoding) -> list[Completion]:
        """The completions of a request, in the order of its seeds.

        Raises:
            BadInputError: as the engine of a worker.
            EngineDownError: the engine of a worker does not answer, or a model had no worker for
                `WorkerPool.patience_s`.
        """
        places = range(0, len(request.seeds), PATHS_PER_CALL)
        parts = [
            replace(request, seeds=request.seeds[start : start + PATHS_PER_CALL])
            for start in places
        ]
        drawn = await gather_all([self._draw_part(part, decoding) for part in parts])
        return [replace(one, model=request.model) for part in drawn for one in part]

    async def _draw_part(self, request: Request, decoding: Decoding) -> list[Completion]:
        """The completions of one call; after the loss of too many workers, with errors."""
        lost = 0
        while lost <= _RETRIES:
            active = await self._acquire(self._model_of(request))
            try:
                drawn = await active.worker.draw(request, decoding)
            except WorkerLeavingError:
                self.pool.drop(active)
            except WorkerLostError:
                self.pool.drop(active)
                self.pool.lost_calls += 1
                lost += 1
            else:
                self.pool.calls_by_worker[active.worker.card.node_id] += 1
                return drawn
            finally:
                active.calls -= 1
                self._announce()
        failed = _failed(f"its worker was lost {lost} times")
        return [replace(failed, opens_request=place == 0) for place in range(len(request.seeds))]

    def _model_of(self, request: Request) -> WorkerModel:
        [model, *_] = [one for one in self.pool.served if request.model in {None, one.name}]
        return model

    async def _acquire(self, model: WorkerModel) -> _Active:
        """The least loaded worker of a model, once one has room for a call."""
        patience = _Patience(model=model, seconds=self.pool.patience_s)
        while True:
            workers = self.pool.workers_of(model)
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
            async with asyncio.timeout(_POLL_S):
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
            self.pool.update(await asyncio.to_thread(self.pool.directory.find))
            self._announce()
            await asyncio.sleep(_POLL_S)


@dataclass(kw_only=True)
class _Patience:
    """Time without any worker of a model."""

    model: WorkerModel
    seconds: float
    _since: float = field(init=False, default_factory=time.monotonic)

    def renew(self) -> None:
        self._since = time.monotonic()

    def check(self) -> None:
        if time.monotonic() - self._since > self.seconds:
            raise EngineDownError(
                f"no worker of {self.model.name} for {self.seconds:g} s; start one and run the same "
                "command again, finished answers are kept"
            )


def _failed(reason: str) -> Completion:
    return Completion(
        text="",
        finish_reason=FinishReason.ERROR,
        prompt_tokens=0,
        completion_tokens=0,
        logprob=None,
        error=reason,
    )


def open_pool(
    directory: Directory, names: Sequence[str], *, place: str, patience_s: float
) -> WorkerPool:
    """The pool of the models ``names``, each of which has a worker now.

    Args:
        directory: The workers.
        names: Models by name; the first one synthesizes.
        place: The cluster in messages.
        patience_s: Longest time without any worker of a model.

    Raises:
        BadInputError: a name is given twice, no worker serves it, or two workers serve different models by it.
    """
    found = directory.find()
    served = served_models(names, [worker.card for worker in found.values()], place=place)
    pool = WorkerPool(directory=directory, served=served, patience_s=patience_s)
    pool.update(found)
    return pool
