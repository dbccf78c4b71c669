"""ChatModel over workers, which join and leave while calls are drawn.

What is drawn depends on the requests alone: they are cut into parts of one size, whatever the number of workers.
Each part goes to the least loaded worker of its model, and to another one if that is lost.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

from pipeline_lib.engines.chat_model import ChatFormat, Completion, Decoding, Request
from pipeline_lib.engines.client.client import ServerChat
from pipeline_lib.engines.client.connection import EngineDownError
from pipeline_lib.engines.client.response_parsing import OnDelta
from pipeline_lib.engines.client.session import OnDrawn, complete_all, gather_all, ignore_drawn
from pipeline_lib.errors import BadInputError
from pipeline_lib.store.files import digest_json
from pipeline_lib.systems.pacore.workers import (
    Worker,
    WorkerCard,
    WorkerLeavingError,
    WorkerLostError,
    WorkerModel,
)

PATHS_PER_CALL = 8
"""Most paths of a request that one worker draws together. Fixed: an engine rounds by the size of its batch."""
_POLL_S = 1.0
_RETRIES = 2
"""Of a call whose worker was lost."""

Find = Callable[[], Mapping[str, Worker]]
"""The workers of a cluster that take calls now, by an id that no later worker has."""


@dataclass(kw_only=True)
class ActiveWorker:
    """A worker in use."""

    id: str
    worker: Worker
    calls: int = 0
    """In flight."""

    @property
    def load(self) -> float:
        """Calls in flight, as a share of those it should have."""
        return self.calls / self.worker.card.calls_together


@dataclass(kw_only=True)
class WorkerPool:
    """Implements ChatModel over the workers of one or several models."""

    find: Find
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
    _active: dict[str, ActiveWorker] = field(init=False, default_factory=dict)

    def update(self, found: Mapping[str, Worker]) -> None:
        """Use these workers; others have left."""
        known = self._active
        self._active = {
            name: known.get(name) or ActiveWorker(id=name, worker=worker)
            for name, worker in found.items()
        }

    def drop(self, active: ActiveWorker) -> None:
        """Do not use a worker until it is found again."""
        self._active.pop(active.id, None)

    def workers_of(self, model: WorkerModel) -> list[ActiveWorker]:
        """The workers of a model that are in use."""
        return [one for one in self._active.values() if one.worker.card.model == model]

    def check_patience(self, model: WorkerModel, since: float) -> None:
        """Return while the time without any worker is not over. EngineDownError: it is."""
        if time.monotonic() - since > self.patience_s:
            raise EngineDownError(
                f"no worker of {model.name} for {self.patience_s:g} s; start one and run the same "
                "command again, finished answers are kept"
            )

    @property
    def models(self) -> Sequence[str]:
        """Their names if there are several; empty for one."""
        return [one.name for one in self.served] if len(self.served) > 1 else []

    @property
    def identity(self) -> str:
        """Of the model; a digest over several."""
        [first, *others] = [one.identity for one in self.served]
        return digest_json([first, *others]) if others else first

    def calls_in_use(self) -> dict[str, int]:
        """Answered calls of the workers of its models, by node id; a cluster may have others."""
        names = [one.worker.card.node_id for model in self.served for one in self.workers_of(model)]
        return {name: self.calls_by_worker[name] for name in names}

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
        """The smallest room of the models; None: unknown for all. EngineDownError: as `complete`."""
        rooms = [self._room(one, prompt) for one in self.served]
        return min((room for room in rooms if room is not None), default=None)

    def _room(self, model: WorkerModel, prompt: str) -> int | None:
        start = time.monotonic()
        while True:
            for active in self.workers_of(model):
                if not active.worker.card.counts_tokens:
                    return None
                try:
                    return active.worker.room(prompt)
                except WorkerLostError:
                    self.drop(active)
            self.check_patience(model, start)
            time.sleep(_POLL_S)
            self.update(self.find())

    def complete(self, requests: Sequence[Request], decoding: Decoding) -> list[list[Completion]]:
        """Draw all completions, in the order of requests and seeds.

        Raises:
            BadInputError: as the engine of a worker.
            EngineDownError: the engine of a worker does not answer, or a model had no worker for `patience_s`.
        """
        return complete_all(self.open(), requests, decoding)

    @asynccontextmanager
    async def open(self) -> "AsyncIterator[PoolSession]":
        """Concurrent calls; within the block workers that join are used."""
        session = PoolSession(pool=self)
        session.following = asyncio.create_task(session.follow())
        try:
            yield session
        finally:
            session.following.cancel()


@dataclass(kw_only=True)
class PoolSession:
    """Concurrent calls in one event loop."""

    pool: WorkerPool
    following: asyncio.Task[None] = field(init=False)
    """The search for workers."""
    _changed: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    """Set, and replaced, when a worker has joined or has room for a call."""

    async def complete(
        self, request: Request, decoding: Decoding, on_drawn: OnDrawn = ignore_drawn
    ) -> list[Completion]:
        """The completions of a request; ``on_drawn`` has those of a worker's call. Errors as `WorkerPool.complete`."""
        places = range(0, len(request.seeds), PATHS_PER_CALL)
        parts = [
            replace(request, seeds=request.seeds[start : start + PATHS_PER_CALL])
            for start in places
        ]
        drawn = await gather_all([self._draw_part(part, decoding, on_drawn) for part in parts])
        return [one for part in drawn for one in part]

    async def stream(self, request: Request, decoding: Decoding, on_delta: OnDelta) -> Completion:
        """The completion of a request with one seed; its text is delivered whole, as workers return it."""
        [drawn] = await self.complete(request, decoding)
        if drawn.error is None:
            on_delta(drawn.text, drawn.reasoning or "")
        return drawn

    async def check(self) -> None:
        """Return if each model has a worker. EngineDownError: one has none."""
        for model in self.pool.served:
            if not self.pool.workers_of(model):
                raise EngineDownError(f"no worker of {model.name}")

    @property
    def retries(self) -> int:
        """Calls that were sent to another worker."""
        return self.pool.lost_calls

    async def follow(self) -> None:
        """Look for workers until it is cancelled."""
        while True:
            self.pool.update(await asyncio.to_thread(self.pool.find))
            self._announce()
            await asyncio.sleep(_POLL_S)

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
        [model, *_] = [one for one in self.pool.served if request.model in {None, one.name}]
        lost = 0
        while lost <= _RETRIES:
            active = await self._acquire(model)
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
        return [Completion.failed(f"its worker was lost {lost} times")] * len(request.seeds)

    async def _acquire(self, model: WorkerModel) -> ActiveWorker:
        """The least loaded worker of a model, once one has room for a call."""
        since = time.monotonic()
        while True:
            workers = self.pool.workers_of(model)
            free = [one for one in workers if one.load < 1]
            if free:
                chosen = min(free, key=lambda one: (one.load, one.id))
                chosen.calls += 1
                return chosen
            since = time.monotonic() if workers else since
            self.pool.check_patience(model, since)
            if self.following.done():
                self.following.result()  # the search for workers has failed
            # Until a change, or the next poll.
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL_S):
                    await self._changed.wait()

    def _announce(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def open_pool(find: Find, names: Sequence[str], *, place: str, patience_s: float) -> WorkerPool:
    """The pool of the models ``names``, the first of which synthesizes; ``place`` is the cluster in messages.

    Raises:
        BadInputError: a name is given twice, no worker serves it now, two workers serve different models by
            it, or only some of the models read words.
    """
    found = find()
    cards = [worker.card for worker in found.values()]
    for name in names:
        if names.count(name) > 1:
            raise BadInputError(f"models: {name} is given twice; give each model once")
    served = [_served_model(name, cards, place) for name in names]
    if len({one.is_compact for one in served}) > 1:
        [compact, *_] = [one.name for one in served if one.is_compact]
        raise BadInputError(
            f"models: {compact} reads compact prompts, and others read words; use them one at a time"
        )
    pool = WorkerPool(find=find, served=served, patience_s=patience_s)
    pool.update(found)
    return pool


def _served_model(name: str, cards: Sequence[WorkerCard], place: str) -> WorkerModel:
    models = {card.model: card.node_id for card in cards if card.model.name == name}
    if not models:
        others = ", ".join(sorted({card.model.name for card in cards}))
        there = f"there are workers of {others}" if others else "there are no workers"
        raise BadInputError(f"{place}: no worker serves {name}; {there}")
    if len(models) > 1:
        one, other, *_ = models.values()
        raise BadInputError(
            f"{place}: workers {one} and {other} serve different models as {name}; stop one of them"
        )
    [model] = models
    return model
