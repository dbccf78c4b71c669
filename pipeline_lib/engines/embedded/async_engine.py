"""The engine thread: sequences of many requests in continuous batches.

Everything that touches the model runs in this thread, in the order of the commands. Each adapter,
and the base, has its own batch; batches with work take turns, one step each.
"""

import asyncio
import itertools
import math
import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.engines.embedded.continuous_batch import DrawnToken, SequenceRequest
from pipeline_lib.engines.embedded.generation import (
    ChoiceBuilder,
    ChoiceDelta,
    DrawFailedError,
    EngineStoppedError,
    Generation,
    Prompt,
    QueueFullError,
    TokenDecoder,
)
from pipeline_lib.engines.embedded.multi_lora import (
    Counters,
    Lane,
    MultiLoraModel,
    is_out_of_memory,
)
from pipeline_lib.errors import ReasonloopError, reason_of

Result = TypeVar("Result")
Command = Callable[[], object]


@dataclass(kw_only=True)
class AsyncEngine:
    """Runs a model in its own thread. The public methods are for the event loop."""

    model: MultiLoraModel
    decoder: TokenDecoder
    max_pending: int
    """Completions running or waiting at once; further requests are refused."""
    counters: Counters = field(init=False, default_factory=Counters)
    stopped: EngineStoppedError | None = field(init=False, default=None)
    """The reason, once the engine has stopped."""
    _open: Counter[Generation] = field(init=False, default_factory=Counter)
    """Unfinished completions of each request."""
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)
    """Guards ``stopped`` and ``_open``, and that nothing is queued after the stop."""
    _commands: "queue.SimpleQueue[Command]" = field(init=False, default_factory=queue.SimpleQueue)
    _lanes: dict[str | None, Lane] = field(init=False, default_factory=dict)
    _ids: Iterator[int] = field(init=False, default_factory=itertools.count)
    _outbox: list[tuple[Generation, ChoiceDelta | EngineStoppedError]] = field(
        init=False, default_factory=list
    )
    _stopping: bool = field(init=False, default=False)
    _loop: asyncio.AbstractEventLoop = field(init=False)
    _thread: threading.Thread = field(init=False)

    def start(self) -> None:
        """Start the thread, as a daemon: a hung step must not keep the process alive."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current step; pending requests get an error."""
        self._commands.put(partial(setattr, self, "_stopping", True))  # noqa: FBT003

    def join(self, timeout_s: float) -> None:
        """Wait for the thread to end, for at most ``timeout_s``."""
        self._thread.join(timeout_s)

    @contextmanager
    def together(self) -> Iterator[None]:
        """No step while the block, which must not await, submits requests: they join a batch at once."""
        submitted = threading.Event()
        self._commands.put(submitted.wait)
        try:
            yield
        finally:
            submitted.set()

    def submit(
        self, prompts: Sequence[Prompt], decoding: Decoding, *, adapter: str | None, streamed: bool
    ) -> Generation:
        """Queue the completions of one request; equal prompts share a prefill.

        Raises:
            QueueFullError: too many are pending.
            EngineStoppedError: the engine has stopped.
        """
        generation = Generation(size=sum(len(prompt.seeds) for prompt in prompts))
        with self._lock:
            self._raise_if_stopped()
            if (before := self._open.total()) + generation.size > self.max_pending:
                raise QueueFullError(
                    f"{before} completions are drawn or wait; {generation.size} more would "
                    f"exceed {self.max_pending}; try again later"
                )
            self._open[generation] = generation.size
            choices = [
                ChoiceBuilder(
                    generation=generation,
                    index=index,
                    streamed=streamed,
                    decoder=self.decoder,
                    stops=decoding.stop,
                )
                for index in range(generation.size)
            ]
            self._commands.put(partial(self._add, prompts, choices, decoding, adapter))
        return generation

    def cancel(self, generation: Generation) -> None:
        """Drop the unfinished completions of a request."""
        self._commands.put(partial(self._cancel, generation))

    def retire(self, adapter: str) -> None:
        """Detach an adapter after its last completion."""
        self._commands.put(partial(self._retire, adapter))

    async def call(self, function: Callable[[], Result]) -> Result:
        """Run a function in the engine's thread, between two steps. Its ReasonloopError is raised."""
        future: Future[Result] = Future()
        with self._lock:
            self._raise_if_stopped()
            self._commands.put(partial(self._run_call, function, future))
        return await asyncio.wrap_future(future)

    def running_and_waiting(self) -> tuple[int, int]:
        """Numbers of completions in a batch, and waiting for a slot."""
        places = self.model.base.batch_size
        running = sum(min(len(lane.choices), places) for lane in list(self._lanes.values()))
        with self._lock:
            return running, max(0, self._open.total() - running)

    def _raise_if_stopped(self) -> None:
        if self.stopped is not None:
            raise self.stopped

    def _run(self) -> None:
        try:
            self.model.configure_thread()
            while not self._stopping:
                self._run_commands()
                for key, lane in list(self._lanes.items()):
                    self._step_lane(key, lane)
                self._publish()
        except BaseException as error:
            self._end(_failure(error))
            raise
        self._end(EngineStoppedError("the server is stopping", failed=False))

    def _run_commands(self) -> None:
        """Run the queued commands; wait for one if no batch has work."""
        if all(lane.batch.idle for lane in self._lanes.values()):
            self._commands.get()()
        while not self._commands.empty():
            self._commands.get()()

    def _step_lane(self, key: str | None, lane: Lane) -> None:
        """One step of one batch; a retired adapter is detached after its last sequence."""
        if not lane.batch.idle:
            self.model.activate(key)
            for drawn in self._draw(key, lane):
                self._add_token(lane, drawn)
        if lane.retired and key is not None and lane.batch.idle:
            del self._lanes[key]
            self.model.detach(key)

    def _draw(self, key: str | None, lane: Lane) -> list[DrawnToken]:
        """The lane's next tokens. An error that requests can cause ends them, not the engine."""
        try:
            return lane.batch.step()
        except Exception as error:
            # Without an adapter, requests can only exhaust memory; other errors are fatal.
            if key is None and not is_out_of_memory(error):
                raise
            for generation in {choice.generation for choice in lane.choices.values()}:
                self._fail(generation, f"{type(error).__name__}: {reason_of(error)}")
            lane.batch.reset()
            return []

    def _fail(self, generation: Generation, reason: str) -> None:
        """End one request with an error."""
        self._outbox.append((generation, DrawFailedError(f"this cannot be drawn: {reason}")))
        self._cancel(generation)

    def _add_token(self, lane: Lane, drawn: DrawnToken) -> None:
        choice = lane.choices.get(drawn.id)
        if choice is None:  # cancelled
            return
        if not math.isfinite(drawn.logprob):
            self._fail(choice.generation, "the model's logits are not finite here")
            return
        self.counters.completion_tokens += 1
        prompt_tokens = lane.uncounted.pop(drawn.id, 0)
        self.counters.prompt_tokens += prompt_tokens
        # The prefill is shared by the completions of a prompt; only the first one may be cached.
        cached_tokens = drawn.cached_tokens if prompt_tokens else 0
        delta = choice.add_token(
            drawn.token, drawn.logprob, drawn.finished, cached_tokens=cached_tokens
        )
        if delta is None:
            return
        self._outbox.append((choice.generation, delta))
        if delta.finished:
            self.counters.finished[delta.finished] += 1
            if not drawn.finished:
                lane.batch.cancel(drawn.id)
            self._forget(lane, drawn.id)

    def _forget(self, lane: Lane, sequence_id: int) -> None:
        generation = lane.choices.pop(sequence_id).generation
        lane.uncounted.pop(sequence_id, None)
        with self._lock:
            self._open[generation] -= 1
            if not self._open[generation]:
                del self._open[generation]

    def _publish(self) -> None:
        """Pass the outbox to the event loop in one call, since each call wakes it."""
        items, self._outbox = self._outbox, []
        if items and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_deliver, items)

    def _add(
        self,
        prompts: Sequence[Prompt],
        choices: Sequence[ChoiceBuilder],
        decoding: Decoding,
        adapter: str | None,
    ) -> None:
        if self.stopped is not None:
            return
        lane = self._lanes.get(adapter)
        if lane is None:
            lane = self._lanes[adapter] = Lane(self.model.open_batch())
        # Stop strings are handled here, so sequences that differ only in them share a batch.
        plain = replace(decoding, stop=())
        sequences = []
        places = iter(choices)
        for prompt in prompts:
            for first, seed in enumerate(prompt.seeds):
                sequence = SequenceRequest(
                    id=next(self._ids), prompt_ids=prompt.ids, seed=seed, decoding=plain
                )
                sequences.append(sequence)
                lane.choices[sequence.id] = next(places)
                if not first:
                    lane.uncounted[sequence.id] = len(prompt.ids)
        lane.batch.add(sequences)

    def _cancel(self, generation: Generation) -> None:
        for lane in self._lanes.values():
            ids = [key for key, choice in lane.choices.items() if choice.generation is generation]
            for sequence_id in ids:
                lane.batch.cancel(sequence_id)
                self._forget(lane, sequence_id)

    def _retire(self, adapter: str) -> None:
        if adapter in self._lanes:
            self._lanes[adapter].retired = True
        elif self.stopped is None:
            self.model.detach(adapter)

    def _run_call(self, function: Callable[[], Result], future: "Future[Result]") -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            self._raise_if_stopped()
            future.set_result(function())
        except ReasonloopError as error:
            future.set_exception(error)
        except BaseException as error:
            future.set_exception(_failure(error))
            raise

    def _end(self, reason: EngineStoppedError) -> None:
        """End all pending requests with ``reason`` and refuse further ones."""
        with self._lock:
            self.stopped = reason
            waiting = list(self._open)
        while not self._commands.empty():  # calls get their error
            self._commands.get()()
        self._outbox += [(generation, reason) for generation in waiting]
        self._publish()


def _failure(error: BaseException) -> EngineStoppedError:
    reason = f"the engine failed: {type(error).__name__}: {reason_of(error)}"
    return EngineStoppedError(reason, failed=True)


def _deliver(items: Sequence[tuple[Generation, ChoiceDelta | EngineStoppedError]]) -> None:
    for generation, item in items:
        generation.receive(item)
