"""Single completions of a model in this process, drawn by the engine's thread."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from pipeline_lib.engines.chat_model import Completion, Decoding
from pipeline_lib.engines.embedded.async_engine import AsyncEngine
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.engines.embedded.generation import (
    ChoiceDelta,
    DrawFailedError,
    EngineStoppedError,
    Generation,
    Prompt,
    TokenDecoder,
)
from pipeline_lib.engines.embedded.multi_lora import MultiLoraModel
from pipeline_lib.engines.tokens import encode_prompt
from pipeline_lib.errors import BadInputError

_NO_LIMIT = 1 << 62
_QUIET_PASSES = 64
"""Passes of the event loop without a new call, after which all tasks are taken to wait. A task that
resumes needs some five passes per level of nested groups until its next call."""
_JOIN_S = 10.0


@asynccontextmanager
async def open_live(base: EmbeddedEngine) -> AsyncIterator[AsyncEngine]:
    """The thread of a model for the duration of the block; torch uses one core in it."""
    engine = AsyncEngine(
        model=MultiLoraModel(base=base, threads=1),
        decoder=TokenDecoder.of(base.tokenizer),
        max_pending=_NO_LIMIT,
    )
    engine.start()
    try:
        yield engine
    finally:
        engine.stop()
        await asyncio.to_thread(engine.join, _JOIN_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveDraws:
    """Implements SingleDraws: a call joins the running batch at its next step."""

    engine: AsyncEngine
    names_stops: bool = True

    async def draw(self, prompt: str, seed: int, decoding: Decoding) -> Completion:
        """One completion.

        Raises:
            BadInputError: the prompt has no token.
            EngineStoppedError: the engine has failed.
        """
        call = _Call.of(self.engine, prompt, seed, decoding)
        return await call.collect(call.submit())


@dataclass(slots=True, kw_only=True)
class WaveDraws:
    """Implements SingleDraws: calls wait until all tasks wait, and are then drawn as one batch.

    Batches, and with them the rounding of logits, follow from the calls alone and not from the time
    they take, so work that is begun again ends with the same tokens. All tasks that are not waiting
    for a call must be about to make one: the event loop has nothing else to wait for.
    """

    engine: AsyncEngine
    names_stops: bool = True
    _waiting: list["_Call"] = field(init=False, default_factory=list)
    _calls: int = field(init=False, default=0)
    """Calls so far."""
    _drawing: int = field(init=False, default=0)
    """Unfinished calls of the wave."""
    _drawn: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    """Set between waves."""
    _next_wave: asyncio.Task[None] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._drawn.set()

    async def draw(self, prompt: str, seed: int, decoding: Decoding) -> Completion:
        """As `LiveDraws.draw`."""
        call = _Call.of(self.engine, prompt, seed, decoding)
        self._waiting.append(call)
        self._calls += 1
        if self._next_wave is None:
            self._next_wave = asyncio.create_task(self._begin_wave())
        try:
            return await call.collect(await call.submitted)
        finally:
            self._leave(call)

    def _leave(self, one: "_Call") -> None:
        """Take a call, which may just have been cancelled, out of its wave."""
        if not one.submitted.done() or one.submitted.cancelled() or one.submitted.exception():
            return
        if (generation := one.submitted.result()).unfinished:
            self.engine.cancel(generation)
        self._drawing -= 1
        if not self._drawing:
            self._drawn.set()

    async def _begin_wave(self) -> None:
        await self._drawn.wait()
        quiet, calls = 0, self._calls
        while quiet < _QUIET_PASSES:
            await asyncio.sleep(0)
            quiet = quiet + 1 if calls == self._calls else 0
            calls = self._calls
        self._next_wave = None
        # Sorted, since the order of the calls follows the order in which others ended.
        wave = sorted(
            (one for one in self._waiting if not one.submitted.done()),
            key=lambda one: (one.prompt.ids, one.prompt.seeds),
        )
        self._waiting = []
        with self.engine.together():
            for one in wave:
                self._submit(one)

    def _submit(self, one: "_Call") -> None:
        try:
            generation = one.submit()
        except EngineStoppedError as error:
            one.submitted.set_exception(error)
            return
        self._drawing += 1
        self._drawn.clear()
        one.submitted.set_result(generation)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Call:
    engine: AsyncEngine
    prompt: Prompt
    decoding: Decoding
    submitted: asyncio.Future[Generation] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    """For a call that waits for others."""

    @classmethod
    def of(cls, engine: AsyncEngine, prompt: str, seed: int, decoding: Decoding) -> "_Call":
        ids = encode_prompt(engine.model.base.tokenizer, prompt)
        if not ids:
            raise BadInputError("a prompt has no token; give at least one")
        return cls(engine=engine, prompt=Prompt(ids=ids, seeds=[seed]), decoding=decoding)

    def submit(self) -> Generation:
        return self.engine.submit([self.prompt], self.decoding, adapter=None, streamed=False)

    async def collect(self, generation: Generation) -> Completion:
        """The completion, once it is drawn; a task that is cancelled drops it from the batch."""
        deltas: list[ChoiceDelta] = []
        try:
            async for arrived in generation:
                deltas += arrived
        except DrawFailedError as error:
            tokens = len(self.prompt.ids)
            return Completion.failed(str(error), prompt_tokens=tokens, opens_request=True)
        finally:
            if generation.unfinished:
                self.engine.cancel(generation)
        [whole] = deltas
        assert whole.finished is not None
        return Completion(
            text=whole.text,
            finish_reason=whole.finished,
            prompt_tokens=len(self.prompt.ids),
            completion_tokens=len(whole.tokens),
            logprob=sum(whole.logprobs),
            cached_tokens=whole.cached_tokens,
            token_ids=whole.tokens,
            token_logprobs=whole.logprobs,
            stopped_by=whole.stopped_by,
            opens_request=True,
        )
