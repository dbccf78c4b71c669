"""The solution of one request on an engine's server or a pool of workers; counts, and the limit of requests in flight."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from fastapi import Response
from prometheus_client import Counter, Gauge, Summary

from pipeline_lib.engines.chat_model import Completion, Decoding, Request
from pipeline_lib.engines.client.connection import EngineDownError
from pipeline_lib.engines.client.response_parsing import OnDelta
from pipeline_lib.engines.client.session import Session, gather_all
from pipeline_lib.engines.server.front import Row, metrics_response
from pipeline_lib.engines.server.responses import ApiError
from pipeline_lib.errors import BadInputError
from pipeline_lib.sampling.compute_cost import NOTHING, Cost, request_cost
from pipeline_lib.systems.pacore.rounds import Calls, Drawn, Exchange, Setting, advance, solve
from pipeline_lib.systems.pacore.solution import Question, Round, Solution
from pipeline_lib.systems.pacore.worker_pool import PoolSession


class Failure(StrEnum):
    """Why a request has no answer."""

    CALL_FAILED = "call_failed"
    """A call of the last round failed."""
    ENGINE_DOWN = "engine_down"
    CLIENT_LEFT = "client_left"
    FULL = "full"


Upstream = Session | PoolSession
DrawAnswers = Callable[[Calls], Coroutine[object, object, Drawn]]
"""Draws the calls of the last round, and counts them."""


def step_text(number: int, num_rounds: int, num_calls: int) -> str:
    """Position of a request: its current round, from 1, and the number of calls there."""
    calls = "1 call" if num_calls == 1 else f"{num_calls} calls"
    return f"round {number} of {num_rounds}, {calls}"


OnStep = Callable[[str], None]


@dataclass(kw_only=True)
class Solver:
    """Solves the questions of all requests; counts since the start, changed in the event loop alone."""

    model_name: str
    upstream: Upstream
    worker: Executor
    """One thread: prompts and answers are made outside the event loop, by one request at a time."""
    most_in_flight: int
    calls_by_worker: Callable[[], Mapping[str, int]] | None = None
    """Answered calls of the workers that take calls now, by node id; None: an engine answers."""
    in_flight: int = 0
    answered: int = 0
    failures: dict[Failure, int] = field(default_factory=lambda: dict.fromkeys(Failure, 0))
    cost: Cost = NOTHING
    """Of the calls that have ended."""
    _running: set[asyncio.Task[object] | None] = field(init=False, default_factory=set)
    _is_stopped: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        name, meaning = "reasonloop_pacore_round_seconds", "Seconds per round."
        self._round_seconds = Summary(name, meaning, ["model_name"], registry=None)
        self._round_seconds.labels(self.model_name)

    @contextmanager
    def admitted(self) -> Iterator[None]:
        """One of the requests in flight. ApiError: 429; there are too many."""
        if self.in_flight >= self.most_in_flight:
            self.failures[Failure.FULL] += 1
            raise ApiError(
                429, f"{self.in_flight} requests are in flight, the most there may be; try again"
            )
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1

    async def metrics(self) -> Response:
        """Counters for a dashboard: one sample of each."""

        def row(
            kind: type[Gauge | Counter], name: str, meaning: str, value: Any, by: str = ""
        ) -> Row:
            return kind, f"reasonloop_pacore_{name}", meaning, value, by

        cost, workers = self.cost, self.calls_by_worker() if self.calls_by_worker else None
        retried = "Calls sent again after a restart or a lost worker."
        rows = [
            row(Gauge, "requests_in_flight", "Open requests.", self.in_flight),
            row(Counter, "requests_answered", "Requests with an answer.", self.answered),
            row(Counter, "calls", "Calls of the engine, failed ones included.", cost.calls),
            row(Counter, "failed_calls", "Calls of the engine that failed.", cost.failed_calls),
            row(Counter, "retried_calls", retried, self.upstream.retries),
            row(Counter, "prompt_tokens", "Prompt tokens of all calls.", cost.prompt_tokens),
            row(Counter, "completion_tokens", "Tokens drawn by all calls.", cost.completion_tokens),
            row(Counter, "failures", "Requests without an answer.", self.failures, "reason"),
        ]
        if workers is not None:
            calls = "Requests of up to 8 paths that it answered."
            rows.append(row(Gauge, "workers", "Workers that take calls.", len(workers)))
            rows.append(row(Counter, "worker_calls", calls, workers, "worker"))
        return metrics_response(self.model_name, rows, self._round_seconds)

    async def solve(
        self,
        question: Question,
        setting: Setting,
        *,
        draw_answers: DrawAnswers | None = None,
        on_step: OnStep = lambda _: None,
    ) -> Solution:
        """The solution; a cancellation closes the connections of its calls.

        ApiError: 502 if a call of the last round failed; 503 if the engine does not answer, or after `stop`.
        """
        task = asyncio.current_task()
        self._running.add(task)
        try:
            solution = await self._solve(question, setting, draw_answers or self._draw, on_step)
        except asyncio.CancelledError:
            if self._is_stopped:
                raise ApiError(503, "the server is stopping; ask it again later") from None
            self.failures[Failure.CLIENT_LEFT] += 1
            raise
        except (EngineDownError, BadInputError) as error:
            self.failures[Failure.ENGINE_DOWN] += 1
            # A server without the model any more is not down.
            status = 503 if isinstance(error, EngineDownError) else 502
            raise ApiError(status, str(error), code="engine_down") from error
        finally:
            self._running.remove(task)
        errors = [one.error for one in solution.answers if one.error is not None]
        if errors:
            self.failures[Failure.CALL_FAILED] += 1
            counted = f"{len(errors)} of {len(solution.answers)} last calls failed: {errors[0]}"
            raise ApiError(502, counted, code="call_failed")
        self.answered += 1
        return solution

    async def stream(self, request: Request, decoding: Decoding, on_delta: OnDelta) -> Completion:
        """As `Session.stream`; counted when it has ended."""
        drawn = await self.upstream.stream(request, decoding, on_delta)
        self._count([drawn])
        return drawn

    def stop(self) -> None:
        """Cancel all calls; their requests end with an error. In the event loop, at its end."""
        self._is_stopped = True
        for task in self._running:
            if task is not None:
                task.cancel()

    async def _solve(
        self, question: Question, setting: Setting, draw_answers: DrawAnswers, on_step: OnStep
    ) -> Solution:
        rounds: list[Round] = []
        exchange = solve(question, setting, on_round=rounds.append)
        step = await self._advance(exchange, None)
        start = time.perf_counter()
        while isinstance(step, Calls):
            calls, finished = _with_plain_seeds(step, setting), len(rounds)
            num_calls = sum(len(request.seeds) for request in calls.requests)
            on_step(step_text(finished + 1, len(setting.plan), num_calls))
            draw = draw_answers if calls.are_last else self._draw
            step = await self._advance(exchange, await draw(calls))
            if len(rounds) > finished:
                now = time.perf_counter()
                self._round_seconds.labels(self.model_name).observe(now - start)
                start = now
        return step

    async def _draw(self, calls: Calls) -> Drawn:
        decoding = calls.decoding
        return await gather_all(
            [self.upstream.complete(one, decoding, self._count) for one in calls.requests]
        )

    def _count(self, drawn: Sequence[Completion]) -> None:
        self.cost = self.cost.then(request_cost(drawn))

    async def _advance(self, exchange: Exchange, drawn: Drawn | None) -> Calls | Solution:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.worker, advance, exchange, drawn)


def _with_plain_seeds(calls: Calls, setting: Setting) -> Calls:
    """A plain call has the seed of the request itself, and so the text of the engine's own chat route."""
    if len(setting.plan) > 1:
        return calls
    [request] = calls.requests
    seeds = range(setting.seed, setting.seed + len(request.seeds))
    return replace(calls, requests=[replace(request, seeds=seeds)])
