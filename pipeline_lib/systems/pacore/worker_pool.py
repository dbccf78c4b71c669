"""Workers, which join and leave while calls are drawn, and the ChatModel over them.

What is drawn depends on the requests alone: they are cut into parts of one size, whatever the number of workers.
Each part goes to the least loaded worker of its model, and to another one if that is lost.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from pipeline_lib.engines.chat_model import ChatFormat, Completion, Decoding, Request
from pipeline_lib.engines.client.client import ServerChat
from pipeline_lib.engines.client.connection import EngineDownError
from pipeline_lib.engines.client.response_parsing import OnDelta
from pipeline_lib.engines.client.session import OnDrawn, complete_all, gather_all, ignore_drawn
from pipeline_lib.errors import BadInputError
from pipeline_lib.store.files import digest_json

PATHS_PER_CALL = 8
"""Most paths of a request that one worker draws together. Fixed: an engine rounds by the size of its batch."""
_POLL_S = 1.0
_RETRIES = 2
"""Of a call whose worker was lost."""


class WorkerLostError(Exception):
    """The worker is gone, or cannot be reached; its call may be sent to another one."""


class WorkerLeavingError(Exception):
    """The worker takes no further calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerModel:
    """The model of a worker; equal for workers whose completions are the same."""

    name: str
    """As given to the worker."""
    identity: str
    engine: str
    format_digest: str
    """Of its chat template."""
    is_compact: bool
    """As `ChatFormat.is_compact`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInfo:
    """Capabilities of a worker."""

    node_id: str
    """Given by its operator."""
    model: WorkerModel
    counts_tokens: bool
    """The room of a prompt is known."""
    calls_together: int
    """Calls that it should have at a time, those that wait for the engine included."""


class Worker(Protocol):
    """A worker that takes calls. Prompts are as of `ServerChat`; the worker applies the template."""

    @property
    def info(self) -> WorkerInfo:
        """Its capabilities."""

    def room(self, prompt: str) -> int | None:
        """As `ChatModel.room`. WorkerLostError: there is no answer."""

    async def draw(self, request: Request, decoding: Decoding) -> list[Completion]:
        """The completions of a request, by seed. WorkerLostError: it was lost; WorkerLeavingError: nothing was drawn."""


Find = Callable[[], Mapping[str, Worker]]
"""The workers of a cluster that take calls now, by an id that no later worker has."""


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
    in_flight: Counter[str] = field(init=False, default_factory=Counter)
    """Calls by id of the worker."""
    _active: dict[str, Worker] = field(init=False, default_factory=dict)

    def update(self, found: Mapping[str, Worker]) -> None:
        """Use these workers, by id; others have left."""
        self._active = dict(found)

    def drop(self, worker_id: str) -> None:
        """Do not use a worker until it is found again."""
        self._active.pop(worker_id, None)

    def workers_of(self, model: WorkerModel) -> dict[str, Worker]:
        """The workers of a model that are in use, by id."""
        return {name: one for name, one in self._active.items() if one.info.model == model}

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
        names = [
            one.info.node_id for model in self.served for one in self.workers_of(model).values()
        ]
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
            for name, worker in self.workers_of(model).items():
                if not worker.info.counts_tokens:
                    return None
                try:
                    return worker.room(prompt)
                except WorkerLostError:
                    self.drop(name)
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
        """The completions of a request; ``on_drawn`` has the ones of a worker's call. Errors as `complete`."""
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
            name, worker = await self._acquire(model)
            try:
                drawn = await worker.draw(request, decoding)
            except WorkerLeavingError:
                self.pool.drop(name)
            except WorkerLostError:
                self.pool.drop(name)
                self.pool.lost_calls += 1
                lost += 1
            else:
                self.pool.calls_by_worker[worker.info.node_id] += 1
                return drawn
            finally:
                self.pool.in_flight[name] -= 1
                self._announce()
        return [Completion.failed(f"its worker was lost {lost} times")] * len(request.seeds)

    async def _acquire(self, model: WorkerModel) -> tuple[str, Worker]:
        """The id and the least loaded worker of a model, once one has room for a call."""
        since = time.monotonic()
        while True:
            workers = self.pool.workers_of(model)
            loads = [
                (self.pool.in_flight[name] / one.info.calls_together, name)
                for name, one in workers.items()
            ]
            load, name = min(loads, default=(1, ""))
            if load < 1:
                self.pool.in_flight[name] += 1
                return name, workers[name]
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
    infos = [worker.info for worker in found.values()]
    for name in names:
        if names.count(name) > 1:
            raise BadInputError(f"models: {name} is given twice; give each model once")
    served = [_served_model(name, infos, place) for name in names]
    if len({one.is_compact for one in served}) > 1:
        [compact, *_] = [one.name for one in served if one.is_compact]
        raise BadInputError(
            f"models: {compact} reads compact prompts, and others read words; use them one at a time"
        )
    pool = WorkerPool(find=find, served=served, patience_s=patience_s)
    pool.update(found)
    return pool


def _served_model(name: str, infos: Sequence[WorkerInfo], place: str) -> WorkerModel:
    models = {info.model: info.node_id for info in infos if info.model.name == name}
    if not models:
        others = ", ".join(sorted({info.model.name for info in infos}))
        there = f"there are workers of {others}" if others else "there are no workers"
        raise BadInputError(f"{place}: no worker serves {name}; {there}")
    if len(models) > 1:
        one, other, *_ = models.values()
        raise BadInputError(
            f"{place}: workers {one} and {other} serve different models as {name}; stop one of them"
        )
    [model] = models
    return model
