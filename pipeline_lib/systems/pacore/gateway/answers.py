"""Responses of the gateway, whole or as events: comments while rounds are drawn, then the answers as they are drawn."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from pipeline_lib.engines.client.session import gather_all
from pipeline_lib.engines.embedded.generation import ChoiceDelta
from pipeline_lib.engines.server.front import event_texts
from pipeline_lib.engines.server.responses import ChatLayout, Json, Usage
from pipeline_lib.sampling.compute_cost import NOTHING
from pipeline_lib.systems.pacore.gateway.solving import Solver, step_text
from pipeline_lib.systems.pacore.rounds import Calls, Drawn, Setting
from pipeline_lib.systems.pacore.solution import Question, Solution, round_counts


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
    _arrived: asyncio.Queue[Sequence[ChoiceDelta] | str | None] = field(
        init=False, default_factory=asyncio.Queue
    )
    """Deltas, comments, and None at the end."""
    _task: asyncio.Task[Solution] | None = field(init=False, default=None)
    _step: str = field(init=False)
    _start: float = field(init=False, default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        self._step = step_text(1, len(self.setting.plan), self.setting.plan[0].width)

    async def whole(self) -> Json:
        """The response with all answers."""
        solution = await self.solver.solve(self.question, self.setting)
        layout = ChatLayout(model=self.model)
        choices = [
            layout.choice(
                ChoiceDelta(
                    index=index,
                    text=answer.text,
                    finished=answer.finish_reason,
                    reasoning=answer.reasoning,
                )
            )
            for index, answer in enumerate(solution.answers)
        ]
        return layout.wrap(choices, **self._counts(solution))

    def _counts(self, solution: Solution) -> Json:
        pacore = {
            "seed": self.setting.seed,
            "rounds": [round_counts(drawn) for drawn in solution.rounds],
            "calls": solution.cost.calls,
            "failed_calls": solution.cost.failed_calls,
            "critical_tokens": solution.cost.critical_tokens,
        }
        return {"usage": _usage(solution), "pacore": pacore}

    def texts(self) -> AsyncIterator[str]:
        """Comments and events; an error is an event, since the status was sent."""
        task = self._task = asyncio.create_task(self._answer())
        layout = ChatLayout(model=self.model, streamed=True)
        totals = (lambda: self._counts(task.result())) if self.include_usage else None
        return event_texts(self._arriving(task), layout, totals=totals)

    def cancel(self) -> None:
        """End the calls that are in flight."""
        if self._task is not None:
            self._task.cancel()

    async def _arriving(
        self, task: asyncio.Task[Solution]
    ) -> AsyncIterator[Sequence[ChoiceDelta] | str]:
        """What is to be sent next; a comment after some silence."""
        item: Sequence[ChoiceDelta] | str | None = self._comment()
        while item is not None:
            yield item
            try:
                async with asyncio.timeout(self.silence_s):
                    item = await self._arrived.get()
            except TimeoutError:
                item = self._comment()
        # A bug is raised here, so that the server logs it and breaks the stream.
        await task

    def _comment(self) -> str:
        return f"{self._step}, {time.perf_counter() - self._start:.0f} s"

    async def _answer(self) -> Solution:
        try:
            solution = await self.solver.solve(
                self.question, self.setting, draw_answers=self._draw, on_step=self._note
            )
            for index, answer in enumerate(solution.answers):
                # An elected answer has not been streamed.
                text = "" if solution.elected is None else answer.text
                self._put(ChoiceDelta(index=index, text=text, finished=answer.finish_reason))
            return solution
        finally:
            self._arrived.put_nowait(None)

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

    def _note(self, step: str) -> None:
        if step != self._step:
            self._step = step
            self._arrived.put_nowait(self._comment())

    def _add(self, index: int, text: str, reasoning: str) -> None:
        self._put(ChoiceDelta(index=index, text=text, reasoning=reasoning))

    def _put(self, delta: ChoiceDelta) -> None:
        self._arrived.put_nowait([delta])


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
