"""The thread that draws: rows of many requests join and leave one running batch.

All that touches the model happens in that thread, in the order in which it was asked for. Each
adapter, and the base, has a batch of its own; those that have work take turns, one step each.
"""

import asyncio
import itertools
import math
import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from pipeline_lib.errors import ReasonloopError, reason_of
from pipeline_lib.serving.chat_model import Decoding
from pipeline_lib.serving.decoding.continuous_batch import DrawnToken, SequenceRequest
from pipeline_lib.serving.front.generation import (
    DrawFailedError,
    EngineGoneError,
    Generation,
    GrowingChoice,
    Piece,
    QueueFullError,
)
from pipeline_lib.serving.front.lane import Counters, Lane, memory_is_short
from pipeline_lib.serving.front.served_model import ServedModel
from pipeline_lib.serving.front.token_text import TokenDecoder

Answer = TypeVar("Answer")
Order = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One prompt and the seeds of its completions."""

    ids: Sequence[int]
    seeds: Sequence[int]


@dataclass(kw_only=True)
class LiveEngine:
    """Drives a model in a thread of its own. The public methods are for the event loop."""

    model: ServedModel
    decoder: TokenDecoder
    max_pending: int
    """Completions that may be drawn or wait at once; what goes beyond is refused."""
    on_failure: Callable[[], None]
    """Called in the engine's thread after everyone who waits was told."""
    counters: Counters = field(init=False, default_factory=Counters)
    gone: EngineGoneError | None = field(init=False, default=None)
    """Why nothing more is drawn, once it is so."""
    _open: Counter[Generation] = field(init=False, default_factory=Counter)
    """Completions of each request that are drawn or wait."""
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)
    """Guards ``gone`` and ``_open``, and that no request is queued once the engine is gone."""
    _orders: "queue.SimpleQueue[Order]" = field(init=False, default_factory=queue.SimpleQueue)
    _lanes: dict[str | None, Lane] = field(init=False, default_factory=dict)
    _ids: Iterator[int] = field(init=False, default_factory=itertools.count)
    _told: list[tuple[Generation, Piece | EngineGoneError]] = field(
        init=False, default_factory=list
    )
    _stopping: bool = field(init=False, default=False)
    _loop: asyncio.AbstractEventLoop = field(init=False)
    _thread: threading.Thread = field(init=False)

    def start(self) -> None:
        """Start the thread. It is a daemon, so that a step that hangs cannot keep the process."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End after the step that runs; whoever waits is told."""
        self._orders.put(partial(setattr, self, "_stopping", True))  # noqa: FBT003

    def join(self, timeout_s: float) -> None:
        """Wait for the thread to end, so long at most."""
        self._thread.join(timeout_s)

    def submit(
        self, prompts: Sequence[Prompt], decoding: Decoding, *, adapter: str | None, streamed: bool
    ) -> Generation:
        """Queue the completions of one request; equal prompts are computed once.

        Raises:
            QueueFullError: too many are pending.
            EngineGoneError: nothing more is drawn.
        """
        generation = Generation(size=sum(len(prompt.seeds) for prompt in prompts))
        with self._lock:
            self._refuse_if_gone()
            if (before := self._open.total()) + generation.size > self.max_pending:
                raise QueueFullError(
                    f"{before} completions are drawn or wait; {generation.size} more would "
                    f"exceed {self.max_pending}; try again later"
                )
            self._open[generation] = generation.size
            choices = [
                GrowingChoice(
                    generation=generation,
                    index=index,
                    streamed=streamed,
                    decoder=self.decoder,
                    stops=decoding.stop,
                )
                for index in range(generation.size)
            ]
            self._orders.put(partial(self._add, prompts, choices, decoding, adapter))
        return generation

    def cancel(self, generation: Generation) -> None:
        """Forget what is not drawn yet; nothing happens when all is."""
        self._orders.put(partial(self._cancel, generation))

    def retire(self, adapter: str) -> None:
        """Drop an adapter once the completions that it was asked for have ended."""
        self._orders.put(partial(self._retire, adapter))

    async def call(self, function: Callable[[], Answer]) -> Answer:
        """Run a function between two steps; its answer, or the error that a user can act on."""
        future: Future[Answer] = Future()
        with self._lock:
            self._refuse_if_gone()
            self._orders.put(partial(self._answer, function, future))
        return await asyncio.wrap_future(future)

    def running_and_waiting(self) -> tuple[int, int]:
        """Completions that are being drawn, and those that wait for a place in a batch."""
        places = self.model.engine.batch_size
        running = sum(min(len(lane.choices), places) for lane in list(self._lanes.values()))
        with self._lock:
            return running, max(0, self._open.total() - running)

    def _refuse_if_gone(self) -> None:
        if self.gone is not None:
            raise self.gone

    def _run(self) -> None:
        try:
            self.model.use_this_thread()
            while not self._stopping:
                self._obey()
                for key, lane in list(self._lanes.items()):
                    self._turn(key, lane)
                self._tell()
        except BaseException as error:
            self._end(_failure(error))
            self.on_failure()
            raise
        self._end(EngineGoneError("the server is stopping", failed=False))

    def _obey(self) -> None:
        """Do what was asked since the last step; with nothing to draw, wait to be asked."""
        if all(lane.batch.idle for lane in self._lanes.values()):
            self._orders.get()()
        while not self._orders.empty():
            self._orders.get()()

    def _turn(self, key: str | None, lane: Lane) -> None:
        """One step of one batch; a retired adapter goes with its last row."""
        if not lane.batch.idle:
            self.model.activate(key)
            for drawn in self._step(key, lane):
                self._take(lane, drawn)
        if lane.retired and key is not None and lane.batch.idle:
            del self._lanes[key]
            self.model.detach(key)

    def _step(self, key: str | None, lane: Lane) -> list[DrawnToken]:
        """The lane's next tokens. What its requests broke costs them, and not the engine."""
        try:
            return lane.batch.step()
        except Exception as error:
            # On the base alone, only a want of memory is a request's doing.
            if key is None and not memory_is_short(error):
                raise
            for generation in {choice.generation for choice in lane.choices.values()}:
                self._fail(generation, f"{type(error).__name__}: {reason_of(error)}")
            lane.batch.reset()
            return []

    def _fail(self, generation: Generation, reason: str) -> None:
        """End one request with an error."""
        self._told.append((generation, DrawFailedError(f"this cannot be drawn: {reason}")))
        self._cancel(generation)

    def _take(self, lane: Lane, drawn: DrawnToken) -> None:
        choice = lane.choices.get(drawn.id)
        if choice is None:  # it was cancelled
            return
        if not math.isfinite(drawn.logprob):
            self._fail(choice.generation, "the model's logits are not finite here")
            return
        self.counters.completion_tokens += 1
        prompt_tokens = lane.uncounted.pop(drawn.id, 0)
        self.counters.prompt_tokens += prompt_tokens
        # The other completions of a prompt share it: it was computed for them, not before.
        cached_tokens = drawn.cached_tokens if prompt_tokens else 0
        piece = choice.take(drawn.token, drawn.logprob, drawn.finished, cached_tokens=cached_tokens)
        if piece is None:
            return
        self._told.append((choice.generation, piece))
        if piece.finished:
            self.counters.finished[piece.finished] += 1
            if not drawn.finished:
                lane.batch.cancel(drawn.id)
            self._forget(lane, drawn.id)

    def _forget(self, lane: Lane, row: int) -> None:
        generation = lane.choices.pop(row).generation
        lane.uncounted.pop(row, None)
        with self._lock:
            self._open[generation] -= 1
            if not self._open[generation]:
                del self._open[generation]

    def _tell(self) -> None:
        """Hand over what was drawn, all at once: every call wakes the event loop."""
        told, self._told = self._told, []
        if told and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_hand_over, told)

    def _add(
        self,
        prompts: Sequence[Prompt],
        choices: Sequence[GrowingChoice],
        decoding: Decoding,
        adapter: str | None,
    ) -> None:
        if self.gone is not None:
            return
        lane = self._lanes.get(adapter)
        if lane is None:
            lane = self._lanes[adapter] = Lane(self.model.open_batch())
        # Rows that differ only in what is looked for in their texts are drawn together.
        plain = replace(decoding, stop=())
        rows = []
        places = iter(choices)
        for prompt in prompts:
            for first, seed in enumerate(prompt.seeds):
                row = SequenceRequest(
                    id=next(self._ids), prompt_ids=prompt.ids, seed=seed, decoding=plain
                )
                rows.append(row)
                lane.choices[row.id] = next(places)
                if not first:
                    lane.uncounted[row.id] = len(prompt.ids)
        lane.batch.add(rows)

    def _cancel(self, generation: Generation) -> None:
        for lane in self._lanes.values():
            rows = [row for row, choice in lane.choices.items() if choice.generation is generation]
            for row in rows:
                lane.batch.cancel(row)
                self._forget(lane, row)

    def _retire(self, adapter: str) -> None:
        if adapter in self._lanes:
            self._lanes[adapter].retired = True
        elif self.gone is None:
            self.model.detach(adapter)

    def _answer(self, function: Callable[[], Answer], future: "Future[Answer]") -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            self._refuse_if_gone()
            future.set_result(function())
        except ReasonloopError as error:
            future.set_exception(error)
        except BaseException as error:
            future.set_exception(_failure(error))
            raise

    def _end(self, gone: EngineGoneError) -> None:
        """Tell everyone who waits, and refuse all who come."""
        with self._lock:
            self.gone = gone
            waiting = list(self._open)
        while not self._orders.empty():  # who asked for something to be done is answered, too
            self._orders.get()()
        self._told += [(generation, gone) for generation in waiting]
        self._tell()


def _failure(error: BaseException) -> EngineGoneError:
    reason = f"the engine failed: {type(error).__name__}: {reason_of(error)}"
    return EngineGoneError(reason, failed=True)


def _hand_over(told: Sequence[tuple[Generation, Piece | EngineGoneError]]) -> None:
    for generation, item in told:
        generation.receive(item)
