"""Single draws in process: equal to a batch of the engine, joined and left at any time."""

import asyncio

import pytest

from pipeline_lib.engines.chat_model import Decoding, Request
from pipeline_lib.engines.embedded.draws import LiveDraws, LockstepDraws, open_live
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.errors import BadInputError
from tests.waiting import until_async

KINDS = pytest.mark.parametrize("kind", [LiveDraws, LockstepDraws])
LONG = Decoding(temperature=0.0, max_new_tokens=100)
"""The model writes no end token greedily."""


@pytest.fixture(scope="module")
def engine(tiny_model):
    return EmbeddedEngine.load(str(tiny_model), batch_size=4)


def drawn(engine, kind, calls):
    """The completions of concurrent calls (prompt, seed, decoding), in their order."""

    async def run():
        async with open_live(engine) as live, asyncio.TaskGroup() as group:
            draws = kind(engine=live)
            tasks = [group.create_task(draws.draw(*call)) for call in calls]
        return [task.result() for task in tasks]

    return asyncio.run(run())


@KINDS
def test_draws_are_those_of_the_engine(engine, kind):
    """Six concurrent calls, each with its own limit and stop, give the completions of `complete`."""
    calls = [
        (prompt, seed, Decoding(temperature=1.0, max_new_tokens=limit, stop=stop))
        for prompt, seed, limit, stop in [
            ("ab", 1, 5, ()),
            ("ab", 2, 30, ()),
            ("ba", 3, 40, ("c",)),
            ("dd", 4, 40, ("da", "b")),
            ("abcd", 5, 1, ()),
            ("c", 6, 60, ("dddd",)),
        ]
    ]
    for call, one in zip(calls, drawn(engine, kind, calls), strict=True):
        prompt, seed, decoding = call
        [[alone]] = engine.complete([Request(prompt=prompt, seeds=[seed])], decoding)
        assert (one.text, one.token_ids, one.finish_reason, one.stopped_by, one.prompt_tokens) == (
            *(alone.text, alone.token_ids, alone.finish_reason, alone.stopped_by),
            alone.prompt_tokens,
        )


@KINDS
def test_a_cancelled_draw_leaves_the_batch(engine, kind):
    """Of five calls on four slots, three are cancelled: the engine ends two, and runs no other."""

    async def run():
        async with open_live(engine) as live:
            draws = kind(engine=live)
            tasks = [asyncio.create_task(draws.draw("ab", seed, LONG)) for seed in range(5)]
            await until_async(lambda: live.completion_tokens)
            for task in tasks[1:4]:
                task.cancel()
            await asyncio.wait(tasks)
            await until_async(lambda: not any(live.running_and_waiting()))
            ended = sum(live.finished.values())
            return [task.cancelled() for task in tasks], ended

    assert asyncio.run(run()) == ([False, True, True, True, False], 2)


@pytest.mark.parametrize("passes", [0, 3, 70, 80])
def test_a_lockstep_batch_goes_on_without_a_call_that_is_cancelled_before_it_begins(engine, passes):
    """Cancelled before the batch, or when it has just begun: the other call and a later one end."""

    async def run():
        async with open_live(engine) as live:
            draws = LockstepDraws(engine=live)
            tasks = [asyncio.create_task(draws.draw("ab", seed, LONG)) for seed in range(2)]
            for _ in range(passes):
                await asyncio.sleep(0)
            tasks[0].cancel()
            await asyncio.wait(tasks)
            async with asyncio.timeout(60):
                await draws.draw("b", 1, LONG)
            return tasks[1].result().prompt_tokens

    assert asyncio.run(run()) == 2


def test_lockstep_batches_have_all_that_waits(engine):
    """Chains of calls of different lengths: a call joins no batch that runs, so prefills come together.

    Three chains of three calls; each batch has the n-th call of all chains. A live draw would begin the
    second call of the short chain while the others still draw their first.
    """
    lengths = {"a": 3, "b": 40, "c": 90}
    begun = []

    async def chain(draws, live, prompt, limit):
        for step in range(3):
            decoding = Decoding(temperature=1.0, max_new_tokens=limit)
            await draws.draw(prompt, step, decoding)
            begun.append((step, prompt))

    async def run():
        async with open_live(engine) as live, asyncio.TaskGroup() as group:
            draws = LockstepDraws(engine=live)
            for prompt, limit in lengths.items():
                group.create_task(chain(draws, live, prompt, limit))

    asyncio.run(run())
    assert [step for step, _ in begun] == [0, 0, 0, 1, 1, 1, 2, 2, 2]


@KINDS
def test_an_empty_prompt_is_refused(engine, kind):
    """A sequence without a token would end the engine's thread, and with it all other calls."""

    async def run():
        async with open_live(engine) as live:
            with pytest.raises(BadInputError, match="no token"):
                await kind(engine=live).draw("", 1, LONG)
            return await kind(engine=live).draw("a", 1, LONG)

    assert asyncio.run(run()).prompt_tokens == 1
