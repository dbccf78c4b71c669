"""Drivers of solutions: in lockstep on an engine in this process, each at its own pace on servers."""

import asyncio
from collections.abc import Callable, Container, Mapping, Sequence

from pipeline_lib.engines.chat_model import ChatModel
from pipeline_lib.engines.client.client import OpenAIModel
from pipeline_lib.engines.client.session import Complete, gather_all
from pipeline_lib.store.shards import split
from pipeline_lib.systems.pacore.rounds import Calls, Drawn, OnRound, Setting, advance, solve
from pipeline_lib.systems.pacore.solution import Question, Solution
from pipeline_lib.systems.pacore.worker_pool import WorkerPool

OnSolved = Callable[[Solution], None]
"""Called with each solution as it is complete, in any order."""


def solve_all(  # noqa: PLR0913 - whom to ask and whom to tell
    model: ChatModel,
    questions: Sequence[Question],
    setting: Setting,
    *,
    together: int,
    on_solved: OnSolved,
    on_round: OnRound | None = None,
    on_start: Callable[[str], None] = lambda _id: None,
    finished: Container[str] = (),
) -> None:
    """Solve all questions but the ``finished`` ones, at most ``together`` at once.

    An engine in this process solves groups of this many: with the finished questions in their places, a command
    that continues has the groups of one that was not interrupted. On servers ``on_start`` is called with the id of each
    question before its first call.

    Raises:
        BadInputError: as `ChatModel.complete`.
        EngineDownError: the server does not answer; earlier solutions were delivered.
    """
    groups = [
        [one for one in group if one.id not in finished] for group in split(questions, together)
    ]
    left = [one for group in groups for one in group]
    if left and isinstance(model, OpenAIModel | WorkerPool):
        waiting, client = iter(left), model

        async def work(complete: Complete) -> None:
            # A slow call delays its own question only; the calls of a round are concurrent.
            for question in waiting:
                on_start(question.id)
                exchange = solve(question, setting, on_round=on_round)
                following = advance(exchange, None)
                while isinstance(following, Calls):
                    running = [
                        complete(request, following.decoding) for request in following.requests
                    ]
                    following = advance(exchange, await gather_all(running))
                on_solved(following)

        async def solve_concurrently() -> None:
            async with client.open() as session:
                await gather_all([work(session.complete) for _ in range(min(together, len(left)))])

        asyncio.run(solve_concurrently())
        return
    for group in groups:
        for solution in solve_in_lockstep(model, group, setting, on_round=on_round):
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
