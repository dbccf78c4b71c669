"""Single draws at an endpoint: limit, stop, cancellation, and what the server says of stops."""

import asyncio

import pytest

from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.records import FinishReason
from tests.unit.engines.scripted_server import changed, never, scripted_server
from tests.waiting import until_async


@pytest.fixture
def server():
    with scripted_server() as running:
        yield running


def test_each_draw_has_its_own_limit_and_stops(server):
    """Two draws of one session are two requests with the limits and stop strings that each gave."""

    async def both():
        async with server.client().open() as draws:
            await draws.draw("a", 1, Decoding(max_new_tokens=7, stop=("x",)))
            return await draws.draw("b", 2, Decoding(max_new_tokens=9))

    drawn = asyncio.run(both())
    assert drawn.text == "b:2"
    assert [(body["max_tokens"], body.get("stop")) for body in server.bodies] == [
        (7, ["x"]),
        (9, None),
    ]


def test_the_finish_names_the_stop_text(server):
    """vLLM's ``stop_reason`` is the stop string that ended the text."""
    choice = {"index": 0, "text": "a", "finish_reason": "stop", "stop_reason": "x"}
    server.script = [changed(choices=[choice | {"token_ids": [3], "logprobs": None}])]

    async def one():
        async with server.client().open() as draws:
            return await draws.draw("a", 1, Decoding(stop=("x",)))

    drawn = asyncio.run(one())
    assert (drawn.stopped_by, drawn.finish_reason) == ("x", FinishReason.STOP)


@pytest.mark.parametrize(("owner", "names"), [("vllm", True), ("sglang", True), ("me", False)])
def test_only_known_servers_are_trusted_to_name_stops(server, owner, names):
    """An unknown server may leave the stop string out, and then its finish looks like an end token."""
    server.models = [{"id": "policy", "owned_by": owner}]

    async def known():
        client = server.client(engine="url", encode=lambda text: list(map(ord, text)))
        async with client.open() as draws:
            return draws.names_stops

    assert asyncio.run(known()) is names


def test_a_cancelled_task_leaves_the_server(server):
    """Cancelling the task of a draw closes its connection, and the session draws on."""
    server.script = [never]

    async def cancel_first():
        async with server.client().open() as draws:
            first = asyncio.create_task(draws.draw("a", 1, Decoding()))
            await until_async(lambda: server.in_flight)
            first.cancel()
            await asyncio.wait([first])
            await until_async(lambda: not server.in_flight)
            return first.cancelled(), await draws.draw("b", 2, Decoding())

    cancelled, drawn = asyncio.run(cancel_first())
    assert cancelled
    assert server.left == 1
    assert drawn.text == "b:2"
