"""The events of one request: comments while rounds are drawn, then the answers as they are drawn."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from functools import partial

from pipeline_lib.engines.client.session import gather_all
from pipeline_lib.engines.client.stream_parsing import Delta
from pipeline_lib.engines.server.delivery import END_OF_STREAM, comment_text, event_text
from pipeline_lib.engines.server.errors import ApiError
from pipeline_lib.engines.server.responses import Json
from pipeline_lib.systems.pacore.gateway.responses import GatewayResponse
from pipeline_lib.systems.pacore.gateway.solving import Solver, Step
from pipeline_lib.systems.pacore.rounds import Calls, Drawn, Setting
from pipeline_lib.systems.pacore.solution import Question


@dataclass(kw_only=True)
class AnswerStream:
    """A request whose answers are streamed."""

    solver: Solver
    question: Question
    setting: Setting
    response: GatewayResponse
    include_usage: bool
    silence_s: float = 8.0
    """A comment follows. Clients are promised one every ten seconds; a busy machine may be late."""
    _texts: asyncio.Queue[str | None] = field(init=False, default_factory=asyncio.Queue)
    """None: the end."""
    _task: asyncio.Task[None] | None = field(init=False, default=None)
    _opened: set[int] = field(init=False, default_factory=set)
    """Choices whose first chunk was sent."""
    _step: Step = field(init=False)
    _start: float = field(init=False, default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        first = self.setting.plan[0].width
        self._step = Step(round_number=1, num_rounds=len(self.setting.plan), num_calls=first)

    async def texts(self) -> AsyncIterator[str]:
        """Comments and events; an error is an event, since the status was sent."""
        self._task = asyncio.create_task(self._answer())
        yield self._comment()
        while (text := await self._next()) is not None:
            yield text
        # A bug is raised here, so that the server logs it and breaks the stream.
        await self._task
        yield END_OF_STREAM

    def cancel(self) -> None:
        """End the calls that are in flight."""
        if self._task is not None:
            self._task.cancel()

    async def _next(self) -> str | None:
        """The next text to send: a comment after some silence."""
        try:
            async with asyncio.timeout(self.silence_s):
                return await self._texts.get()
        except TimeoutError:
            return self._comment()

    def _comment(self) -> str:
        step = self._step
        calls = "1 call" if step.num_calls == 1 else f"{step.num_calls} calls"
        seconds = time.perf_counter() - self._start
        return comment_text(
            f"round {step.round_number} of {step.num_rounds}, {calls}, {seconds:.0f} s"
        )

    async def _answer(self) -> None:
        try:
            solution = await self.solver.solve(
                self.question, self.setting, draw_answers=self._draw, on_step=self._note
            )
            for index, answer in enumerate(solution.answers):
                self._open(index)
                self._send(self.response.last_chunk(index, answer))
            if self.include_usage:
                self._send(self.response.usage_chunk(solution))
        except ApiError as error:
            self._send(error.body())
        finally:
            self._texts.put_nowait(None)

    async def _draw(self, calls: Calls) -> Drawn:
        """The answers, each by a request of its own."""
        indices = itertools.count()
        streams = [
            self.solver.stream(
                replace(request, seeds=[seed]), calls.decoding, partial(self._add, next(indices))
            )
            for request in calls.requests
            for seed in request.seeds
        ]
        drawn = iter(await gather_all(streams))
        return [[next(drawn) for _ in request.seeds] for request in calls.requests]

    def _note(self, step: Step) -> None:
        if step != self._step:
            self._step = step
            self._texts.put_nowait(self._comment())

    def _add(self, index: int, delta: Delta) -> None:
        self._open(index)
        self._send(self.response.chunk(index, delta))

    def _open(self, index: int) -> None:
        if index not in self._opened:
            self._opened.add(index)
            self._send(self.response.first_chunk(index))

    def _send(self, chunk: Json) -> None:
        self._texts.put_nowait(event_text([chunk]))
