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

import torch

from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.engines.embedded.continuous_batch import (
    ContinuousBatch,
    DrawnToken,
    SequenceRequest,
)
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
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
from pipeline_lib.engines.embedded.multi_lora import MultiLoraModel
from pipeline_lib.errors import ReasonloopError, reason_of
from pipeline_lib.records import FinishReason

Result = TypeVar("Result")
Command = Callable[[], object]


@dataclass(slots=True)
class AdapterBatch:
    """The batch of one adapter or of the base, and its open completions."""

    sequences: ContinuousBatch
    choices: dict[int, ChoiceBuilder] = field(default_factory=dict)
    """By sequence id."""
    uncounted: dict[int, int] = field(default_factory=dict)
    """Prompt tokens by sequence id of a prompt's first completion, until its first token."""
    retired: bool = False
    """The adapter is detached after its last sequence."""


@dataclass(kw_only=True)
class AsyncEngine:
    """Runs a model in its own thread. The public methods are for the event loop."""

    base: EmbeddedEngine
    max_pending: int
    """Completions running or waiting at once; further requests are refused."""
    threads: int = 1
    """CPU threads of torch; another number rounds differently."""
    model: MultiLoraModel = field(init=False)
    decoder: TokenDecoder = field(init=False)
    prompt_tokens: int = field(init=False, default=0)
    """Since the start; counted once per prompt, at its first completion token."""
    completion_tokens: int = field(init=False, default=0)
    finished: dict[FinishReason, int] = field(
        init=False, default_factory=lambda: {FinishReason.STOP: 0, FinishReason.LENGTH: 0}
    )
    """Completions that ended since the start."""
    stopped: EngineStoppedError | None = field(init=False, default=None)
    """The reason, once the engine has stopped."""
    _open: Counter[Generation] = field(init=False, default_factory=Counter)
    """Unfinished completions of each request."""
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)
    """Guards ``stopped`` and ``_open``, and that nothing is queued after the stop."""
    _commands: "queue.SimpleQueue[Command]" = field(init=False, default_factory=queue.SimpleQueue)
    _batches: dict[str | None, AdapterBatch] = field(init=False, default_factory=dict)
    _ids: Iterator[int] = field(init=False, default_factory=itertools.count)
    _outbox: list[tuple[Generation, ChoiceDelta | EngineStoppedError]] = field(
        init=False, default_factory=list
    )
    _stopping: bool = field(init=False, default=False)
    _loop: asyncio.AbstractEventLoop = field(init=False)
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.model = MultiLoraModel(base=self.base)
        self.decoder = TokenDecoder.of(self.base.tokenizer)

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
        places = self.base.batch_size
        running = sum(min(len(batch.choices), places) for batch in list(self._batches.values()))
        with self._lock:
            return running, max(0, self._open.total() - running)

    def _raise_if_stopped(self) -> None:
        if self.stopped is not None:
            raise self.stopped

    def _run(self) -> None:
        try:
            torch.set_num_threads(self.threads)  # of this thread alone
            while not self._stopping:
                self._run_commands()
                for key, batch in list(self._batches.items()):
                    self._step_batch(key, batch)
                self._publish()
        except BaseException as error:
            self._end(_failure(error))
            raise
        self._end(EngineStoppedError("the server is stopping", failed=False))

    def _run_commands(self) -> None:
        """Run the queued commands; wait for one if no batch has work."""
        if all(batch.sequences.idle for batch in self._batches.values()):
            self._commands.get()()
        while not self._commands.empty():
            self._commands.get()()

    def _step_batch(self, key: str | None, batch: AdapterBatch) -> None:
        """One step of one batch; a retired adapter is detached after its last sequence."""
        if not batch.sequences.idle:
            self.model.activate(key)
            for drawn in self._draw(key, batch):
                self._add_token(batch, drawn)
        if batch.retired and key is not None and batch.sequences.idle:
            del self._batches[key]
            self.model.detach(key)

    def _draw(self, key: str | None, batch: AdapterBatch) -> list[DrawnToken]:
        """The batch's next tokens. An error that requests can cause ends them, not the engine."""
        try:
            return batch.sequences.step()
        except Exception as error:
            # Without an adapter, requests can only exhaust memory; other errors are fatal.
            if key is None and not _is_out_of_memory(error):
                raise
            for generation in {choice.generation for choice in batch.choices.values()}:
                self._fail(generation, f"{type(error).__name__}: {reason_of(error)}")
            batch.sequences.reset()
            return []

    def _fail(self, generation: Generation, reason: str) -> None:
        """End one request with an error."""
        self._outbox.append((generation, DrawFailedError(f"this cannot be drawn: {reason}")))
        self._cancel(generation)

    def _add_token(self, batch: AdapterBatch, drawn: DrawnToken) -> None:
        choice = batch.choices.get(drawn.id)
        if choice is None:  # cancelled
            return
        if not math.isfinite(drawn.logprob):
            self._fail(choice.generation, "the model's logits are not finite here")
            return
        self.completion_tokens += 1
        prompt_tokens = batch.uncounted.pop(drawn.id, 0)
        self.prompt_tokens += prompt_tokens
        # The prefill is shared by the completions of a prompt; only the first one may be cached.
        cached_tokens = drawn.cached_tokens if prompt_tokens else 0
        delta = choice.add_token(
            drawn.token, drawn.logprob, drawn.finished, cached_tokens=cached_tokens
        )
        if delta is None:
            return
        self._outbox.append((choice.generation, delta))
        if delta.finished:
            self.finished[delta.finished] += 1
            if not drawn.finished:
                batch.sequences.cancel(drawn.id)
            self._forget(batch, drawn.id)

    def _forget(self, batch: AdapterBatch, sequence_id: int) -> None:
        generation = batch.choices.pop(sequence_id).generation
        batch.uncounted.pop(sequence_id, None)
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
        batch = self._batches.get(adapter)
        if batch is None:
            batch = self._batches[adapter] = AdapterBatch(self.base.open_batch())
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
                batch.choices[sequence.id] = next(places)
                if not first:
                    batch.uncounted[sequence.id] = len(prompt.ids)
        batch.sequences.add(sequences)

    def _cancel(self, generation: Generation) -> None:
        for batch in self._batches.values():
            ids = [key for key, choice in batch.choices.items() if choice.generation is generation]
            for sequence_id in ids:
                batch.sequences.cancel(sequence_id)
                self._forget(batch, sequence_id)

    def _retire(self, adapter: str) -> None:
        if adapter in self._batches:
            self._batches[adapter].retired = True
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


def _is_out_of_memory(error: Exception) -> bool:
    """True if a step failed for lack of memory."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    # The CPU allocator raises a plain RuntimeError.
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)


def _failure(error: BaseException) -> EngineStoppedError:
    reason = f"the engine failed: {type(error).__name__}: {reason_of(error)}"
    return EngineStoppedError(reason, failed=True)


def _deliver(items: Sequence[tuple[Generation, ChoiceDelta | EngineStoppedError]]) -> None:
    for generation, item in items:
        generation.receive(item)
