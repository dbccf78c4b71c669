"""The engine of a worker without Ray: calls that are cancelled, and leaving."""

import asyncio
import contextlib
import pathlib
import threading

import pytest

from flows.ray.workers import WorkerActor
from pipeline_lib.engines.chat_model import Request
from pipeline_lib.engines.client.client import ServerChat
from pipeline_lib.params.serve import ServeParams
from tests.unit.systems.pacore.scripted_chat import DECODING, TURNS, scripted, text_of

GIVE_UP_S = 60.0
NUM_CALLS = 4


async def opened_actor(engine):
    actor = WorkerActor("1", "A", ServeParams(), log_folder=pathlib.Path("logs"), batch_size=8)
    await actor.use(engine)
    return actor


class HeldEngine:
    """Answers once it is released; counts the batches that it draws at once."""

    def __init__(self) -> None:
        self.entered, self.released = threading.Event(), threading.Event()
        self.running = self.most_running = 0
        self.lock = threading.Lock()
        self.model = scripted(self.answer)

    def answer(self, prompt: str, seed: int) -> str:
        with self.lock:
            self.running += 1
            self.most_running = max(self.running, self.most_running)
        self.entered.set()
        assert self.released.wait(GIVE_UP_S)
        with self.lock:
            self.running -= 1
        return text_of(prompt, seed)


def request(seed: int) -> Request:
    return Request(prompt=ServerChat().render(TURNS), seeds=[seed])


@pytest.mark.parametrize("cancellations", [1, 2])
def test_a_cancelled_call_holds_the_engine_until_its_batch_ends(cancellations):
    """Four calls, each cancelled while it is drawn or waits, then a fifth: never two batches at once.

    `leave` returns after the last batch.
    """

    async def run() -> None:
        engine = HeldEngine()
        actor = await opened_actor(engine.model)
        calls = [
            asyncio.create_task(actor.draw(request(seed), DECODING)) for seed in range(NUM_CALLS)
        ]
        assert await asyncio.to_thread(engine.entered.wait, GIVE_UP_S)
        for _ in range(cancellations):
            for call in calls:
                call.cancel()
            await asyncio.sleep(0.05)
        after = asyncio.create_task(actor.draw(request(9), DECODING))
        await asyncio.sleep(0.05)
        leaving = asyncio.create_task(actor.leave())
        await asyncio.sleep(0.05)
        assert (engine.most_running, leaving.done()) == (1, False)
        engine.released.set()
        await asyncio.gather(*calls, return_exceptions=True)
        assert all(call.cancelled() for call in calls)
        assert len(await after) == 1
        await leaving
        assert (engine.running, engine.most_running) == (0, 1)

    asyncio.run(run())


def test_a_cancelled_call_whose_batch_fails_is_cancelled():
    """An error of the engine in a cancelled call is dropped, and the next call is drawn."""

    async def run() -> None:
        engine = HeldEngine()
        faults = [RuntimeError("no memory")]
        answer = engine.answer

        def failing_once(prompt: str, seed: int) -> str:
            text = answer(prompt, seed)
            if faults:
                raise faults.pop()
            return text

        actor = await opened_actor(scripted(failing_once))
        call = asyncio.create_task(actor.draw(request(1), DECODING))
        assert await asyncio.to_thread(engine.entered.wait, GIVE_UP_S)
        call.cancel()
        await asyncio.sleep(0.05)
        engine.released.set()
        with contextlib.suppress(asyncio.CancelledError):
            await call
        assert call.cancelled()
        [drawn] = await actor.draw(request(2), DECODING)
        assert drawn.error is None

    asyncio.run(run())
