"""Single completions of a model in this process, drawn by the engine's thread."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from typing_extensions import override

from pipeline_lib.engines.chat_model import Completion, Decoding
from pipeline_lib.engines.embedded.async_engine import AsyncEngine
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.engines.embedded.generation import (
    ChoiceDelta,
    DrawFailedError,
    EngineStoppedError,
    Generation,
    Prompt,
)
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
    engine = AsyncEngine(base=base, max_pending=_NO_LIMIT)
    engine.start()
    try:
        yield engine
    finally:
        engine.stop()
        await asyncio.to_thread(engine.join, _JOIN_S)


@dataclass(slots=True, kw_only=True)
class LiveDraws:
    """Implements Draws: a call joins the running batch at its next step."""

    engine: AsyncEngine
    encode: Callable[[str], list[int]] | None = None
    """Token ids of a prompt; None: as the model's tokenizer has them."""
    names_stops: bool = True

    async def draw(self, prompt: str, seed: int, decoding: Decoding) -> Completion:
        """One completion. BadInputError: the prompt has no token. EngineStoppedError: the engine has failed."""
        call = self._prompt(prompt, seed)
        return await self._collect(call, self._submit(call, decoding))

    def _prompt(self, prompt: str, seed: int) -> Prompt:
        encode = self.encode or partial(encode_prompt, self.engine.base.tokenizer)
        ids = encode(prompt)
        if not ids:
            raise BadInputError("a prompt has no token; give at least one")
        return Prompt(ids=ids, seeds=[seed])

    def _submit(self, prompt: Prompt, decoding: Decoding) -> Generation:
        return self.engine.submit([prompt], decoding, adapter=None, streamed=False)

    async def _collect(self, prompt: Prompt, generation: Generation) -> Completion:
        """The completion, once it is drawn; a task that is cancelled drops it from the batch."""
        deltas: list[ChoiceDelta] = []
        try:
            async for arrived in generation:
                deltas += arrived
        except DrawFailedError as error:
            tokens = len(prompt.ids)
            return Completion.failed(str(error), prompt_tokens=tokens, opens_request=True)
        finally:
            if generation.unfinished:
                self.engine.cancel(generation)
        [whole] = deltas
        assert whole.finished is not None
        return Completion(
            text=whole.text,
            finish_reason=whole.finished,
            prompt_tokens=len(prompt.ids),
            completion_tokens=len(whole.tokens),
            logprob=sum(whole.logprobs),
            cached_tokens=whole.cached_tokens,
            token_ids=whole.tokens,
            token_logprobs=whole.logprobs,
            stopped_by=whole.stopped_by,
            opens_request=True,
        )


@dataclass(slots=True, kw_only=True)
class LockstepDraws(LiveDraws):
    """Implements Draws: calls wait until all tasks wait, and are then drawn as one batch.

    Batches, and with them the rounding of logits, follow from the calls alone and not from the time
    they take, so work that is begun again ends with the same tokens. All tasks that are not waiting
    for a call must be about to make one: the event loop has nothing else to wait for.
    """

    _waiting: list[tuple[Prompt, Decoding, asyncio.Future[Generation]]] = field(
        init=False, default_factory=list
    )
    _calls: int = field(init=False, default=0)
    """Calls so far."""
    _drawing: int = field(init=False, default=0)
    """Unfinished calls of the batch."""
    _drawn: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    """Set between batches."""
    _next_batch: asyncio.Task[None] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._drawn.set()

    @override
    async def draw(self, prompt: str, seed: int, decoding: Decoding) -> Completion:
        """As `LiveDraws.draw`."""
        call = self._prompt(prompt, seed)
        submitted = asyncio.get_running_loop().create_future()
        self._waiting.append((call, decoding, submitted))
        self._calls += 1
        if self._next_batch is None:
            self._next_batch = asyncio.create_task(self._begin_batch())
        try:
            return await self._collect(call, await submitted)
        finally:
            self._leave(submitted)

    def _leave(self, submitted: asyncio.Future[Generation]) -> None:
        """Take a call, which may just have been cancelled, out of its batch."""
        if not submitted.done() or submitted.cancelled() or submitted.exception():
            return
        if (generation := submitted.result()).unfinished:
            self.engine.cancel(generation)
        self._drawing -= 1
        if not self._drawing:
            self._drawn.set()

    async def _begin_batch(self) -> None:
        await self._drawn.wait()
        quiet, calls = 0, self._calls
        while quiet < _QUIET_PASSES:
            await asyncio.sleep(0)
            quiet = quiet + 1 if calls == self._calls else 0
            calls = self._calls
        self._next_batch = None
        # Sorted, since the order of the calls follows the order in which others ended.
        batch = sorted(self._waiting, key=lambda one: (one[0].ids, one[0].seeds))
        self._waiting = []
        with self.engine.together():
            for prompt, decoding, submitted in batch:
                if submitted.done():
                    continue
                try:
                    submitted.set_result(self._submit(prompt, decoding))
                except EngineStoppedError as error:
                    submitted.set_exception(error)
                else:
                    self._drawing += 1
                    self._drawn.clear()
