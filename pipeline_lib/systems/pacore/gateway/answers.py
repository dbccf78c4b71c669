"""Responses of the gateway, whole or as events: comments while rounds are drawn, then the answers as they are drawn."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from functools import partial

from pipeline_lib.engines.chat_model import Completion
from pipeline_lib.engines.client.response_parsing import Delta
from pipeline_lib.engines.client.session import gather_all
from pipeline_lib.engines.embedded.generation import ChoiceDelta
from pipeline_lib.engines.server.front import END_OF_STREAM, comment_text, event_text
from pipeline_lib.engines.server.responses import (
    ApiError,
    ChatLayout,
    ChoiceFields,
    Envelope,
    Json,
    Usage,
)
from pipeline_lib.sampling.compute_cost import NOTHING
from pipeline_lib.systems.pacore.gateway.solving import Solver, Step
from pipeline_lib.systems.pacore.rounds import Calls, Drawn, Setting
from pipeline_lib.systems.pacore.solution import Question, Solution, round_counts

_LAYOUT = ChatLayout(
    fields=ChoiceFields(logprobs=False, alternatives=0, token_ids=False), name_of=str
)


@dataclass(kw_only=True)
class Answer:
    """The answer to one request, as one JSON object or as a stream."""

    solver: Solver
    question: Question
    setting: Setting
    model: str
    """In the response."""
    include_usage: bool = False
    silence_s: float = 8.0
    """A comment follows. Clients are promised one every ten seconds; a busy machine may be late."""
    _envelope: Envelope = field(init=False)
    _texts: asyncio.Queue[str | None] = field(init=False, default_factory=asyncio.Queue)
    """None: the end."""
    _task: asyncio.Task[None] | None = field(init=False, default=None)
    _opened: set[int] = field(init=False, default_factory=set)
    """Choices whose first chunk was sent."""
    _step: Step = field(init=False)
    _start: float = field(init=False, default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        kind = "chat.completion"
        self._envelope = Envelope.new(kind=kind, prefix="chatcmpl", model=self.model)
        self._step = Step(1, len(self.setting.plan), self.setting.plan[0].width)

    async def whole(self) -> Json:
        """The response with all answers."""
        solution = await self.solver.solve(self.question, self.setting)
        choices = [_choice(index, answer) for index, answer in enumerate(solution.answers)]
        return self._envelope.wrap(choices, **self._counts(solution))

    def _counts(self, solution: Solution) -> Json:
        pacore = {
            "seed": self.setting.seed,
            "rounds": [round_counts(drawn) for drawn in solution.rounds],
            "calls": solution.cost.calls,
            "failed_calls": solution.cost.failed_calls,
            "critical_tokens": solution.cost.critical_tokens,
        }
        return {"usage": _usage(solution), "pacore": pacore}

    async def texts(self) -> AsyncIterator[str]:
        """Comments and events; an error is an event, since the status was sent."""
        self._envelope = replace(self._envelope, kind="chat.completion.chunk")
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
        return comment_text(f"round {step.number} of {step.num_rounds}, {calls}, {seconds:.0f} s")

    async def _answer(self) -> None:
        try:
            solution = await self.solver.solve(
                self.question, self.setting, draw_answers=self._draw, on_step=self._note
            )
            for index, answer in enumerate(solution.answers):
                self._open(index)
                self._send(_LAYOUT.chunk(_delta(index, finished=answer)))
            if self.include_usage:
                self._put(self._envelope.wrap([], **self._counts(solution)))
        except ApiError as error:
            self._put(error.body())
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
        choice = _LAYOUT.chunk(_delta(index, text=delta.text))
        if delta.reasoning:
            choice["delta"]["reasoning_content"] = delta.reasoning
        self._send(choice)

    def _open(self, index: int) -> None:
        if index not in self._opened:
            self._opened.add(index)
            self._send(_LAYOUT.first_chunk(index))

    def _send(self, choice: Json) -> None:
        self._put(self._envelope.wrap([choice]))

    def _put(self, event: Json) -> None:
        self._texts.put_nowait(event_text([event]))


def _usage(solution: Solution) -> Json:
    """Sums over all calls; tokens of the rounds before the last are OpenAI's reasoning tokens."""
    cost, before = solution.cost, NOTHING
    for drawn in solution.rounds[:-1]:
        before = before.then(drawn.cost)
    counts = Usage(
        prompt_tokens=cost.prompt_tokens,
        cached_tokens=cost.cached_tokens,
        completion_tokens=cost.completion_tokens,
    ).json()
    return counts | {"completion_tokens_details": {"reasoning_tokens": before.completion_tokens}}


def _choice(index: int, answer: Completion) -> Json:
    choice = _LAYOUT.choice(_delta(index, text=answer.text, finished=answer))
    if answer.reasoning is not None:
        choice["message"]["reasoning_content"] = answer.reasoning
    return choice


def _delta(index: int, *, text: str = "", finished: Completion | None = None) -> ChoiceDelta:
    reason = finished.finish_reason if finished else None
    return ChoiceDelta(
        index=index, text=text, tokens=(), logprobs=(), finished=reason, cached_tokens=0
    )
