"""Drivers of solutions: in lockstep on an engine in this process, each at its own pace on servers."""

import asyncio
from collections.abc import Callable, Container, Iterator, Mapping, Sequence

from pipeline_lib.engines.chat_model import ChatModel
from pipeline_lib.engines.client.client import OpenAIModel
from pipeline_lib.engines.client.session import Draw, gather_all
from pipeline_lib.store.shards import split
from pipeline_lib.systems.pacore.rounds import Calls, Drawn, OnRound, Setting, advance, solve
from pipeline_lib.systems.pacore.solution import Question, Solution
from pipeline_lib.systems.pacore.worker_pool import WorkerPool

OnSolved = Callable[[Solution], None]
"""Called with each solution as it is complete, in any order."""


def solve_all(
    model: ChatModel,
    questions: Sequence[Question],
    setting: Setting,
    *,
    together: int,
    on_solved: OnSolved,
    finished: Container[str] = (),
) -> None:
    """Solve all questions, at most ``together`` at once.

    Args:
        model: An engine in this process, a server or workers.
        questions: All, also those that an interrupted command has solved.
        setting: Of all questions.
        together: An engine in this process solves groups of this many: with the finished questions in
            their places, a command that continues has the groups of one that was not interrupted.
        on_solved: Called with each solution.
        finished: Ids of questions that are left out.

    Raises:
        BadInputError: as `ChatModel.complete`.
        EngineDownError: the server does not answer; earlier solutions were delivered.
    """
    groups = [
        [one for one in group if one.id not in finished] for group in split(questions, together)
    ]
    left = [one for group in groups for one in group]
    if not left:
        return
    if isinstance(model, OpenAIModel | WorkerPool):
        asyncio.run(
            _solve_concurrently(model, left, setting, together=together, on_solved=on_solved)
        )
        return
    for group in groups:
        for solution in solve_in_lockstep(model, group, setting):
            on_solved(solution)


def solve_in_lockstep(
    model: ChatModel,
    questions: Sequence[Question],
    setting: Setting,
    *,
    on_round: OnRound | None = None,
) -> list[Solution]:
    """Solutions in the order of ``questions``; their calls are drawn in one batch per step.

    An engine in this process decodes one batch at a time, so nothing is gained by another order.
    """
    exchanges = [solve(question, setting, on_round=on_round) for question in questions]
    solutions: dict[int, Solution] = {}
    drawn: dict[int, Drawn | None] = dict.fromkeys(range(len(questions)))
    while drawn:
        waiting: dict[int, Calls] = {}
        for place, completions in drawn.items():
            following = advance(exchanges[place], completions)
            if isinstance(following, Calls):
                waiting[place] = following
            else:
                solutions[place] = following
        drawn = {**_complete(model, waiting)}
    return [solutions[place] for place in range(len(questions))]


def _complete(model: ChatModel, waiting: Mapping[int, Calls]) -> dict[int, Drawn]:
    """The completions of all calls; those with equal decoding are one batch."""
    drawn: dict[int, Drawn] = {}
    for decoding in dict.fromkeys(calls.decoding for calls in waiting.values()):
        batch = {place: calls for place, calls in waiting.items() if calls.decoding == decoding}
        requests = [request for calls in batch.values() for request in calls.requests]
        completions = iter(model.complete(requests, decoding))
        for place, calls in batch.items():
            drawn[place] = [next(completions) for _ in calls.requests]
    return drawn


def solve_one(
    model: ChatModel, question: Question, setting: Setting, *, on_round: OnRound
) -> Solution:
    """The solution of one question, reported round by round.

    Raises:
        BadInputError: as `ChatModel.complete`.
        EngineDownError: the server does not answer.
    """
    if isinstance(model, OpenAIModel | WorkerPool):
        return asyncio.run(_solve_alone(model, question, setting, on_round))
    [solution] = solve_in_lockstep(model, [question], setting, on_round=on_round)
    return solution


async def _solve_alone(
    model: OpenAIModel | WorkerPool, question: Question, setting: Setting, on_round: OnRound
) -> Solution:
    async with model.open() as session:
        return await solve_on_server(session.draw, question, setting, on_round=on_round)


async def _solve_concurrently(
    model: OpenAIModel | WorkerPool,
    questions: Sequence[Question],
    setting: Setting,
    *,
    together: int,
    on_solved: OnSolved,
) -> None:
    """A slow call delays its own question only."""
    left: Iterator[Question] = iter(questions)

    async def work(draw: Draw) -> None:
        for question in left:
            on_solved(await solve_on_server(draw, question, setting))

    async with model.open() as session:
        await gather_all([work(session.draw) for _ in range(min(together, len(questions)))])


async def solve_on_server(
    draw: Draw, question: Question, setting: Setting, *, on_round: OnRound | None = None
) -> Solution:
    """The solution of one question; the calls of a round are concurrent."""
    exchange = solve(question, setting, on_round=on_round)
    following = advance(exchange, None)
    while isinstance(following, Calls):
        running = [draw(request, following.decoding) for request in following.requests]
        following = advance(exchange, await gather_all(running))
    return following
