"""Streams of the gateway: comments, deltas, breaks."""

import asyncio
import json
import threading

import openai
import pytest
from starlette.responses import StreamingResponse

from pipeline_lib.systems.pacore.gateway.answers import Answer
from tests.unit.engines.scripted_server import MODEL, answers, reset, scripted_server
from tests.unit.systems.pacore.running_gateway import gateway_of
from tests.unit.systems.pacore.scripted_chat import by_seed, question, setting, stream_response

TURNS = [{"role": "user", "content": "What is 6 times 7?"}]
GIVE_UP_S = 60.0
ASKED = {"model": f"{MODEL}:low", "messages": TURNS, "seed": 4}


@pytest.fixture
def server():
    with scripted_server() as running:
        running.models = [{"id": MODEL}]
        running.always = by_seed()
        yield running


@pytest.fixture
def gateway(server):
    with gateway_of(server) as running:
        yield running


def last_calls(first, then=None):
    """The first streamed call is replied by ``first``, later ones by ``then``."""
    replies = [first]

    async def reply(request, body):
        if body.get("stream"):
            return await (replies.pop() if replies else then or by_seed())(request, body)
        return await by_seed()(request, body)

    return reply


def events_of(gateway, **more):
    """The comments and the chunks of a stream."""
    text = gateway.post(**ASKED, stream=True, **more).text
    lines = [line for line in text.split("\n") if line]
    comments = [line for line in lines if line.startswith(":")]
    data = [line.removeprefix("data: ") for line in lines if not line.startswith(":")]
    assert data[-1] == "[DONE]"
    return comments, [json.loads(line) for line in data[:-1]]


def test_an_elected_answer_is_one_piece(server):
    """A vote streams its comments, then the whole answer; it elects one, and not n."""
    with gateway_of(server, "pacore.final=vote") as gateway:
        whole = gateway.client().chat.completions.create(**ASKED)
        comments, chunks = events_of(gateway)
        refused = gateway.post(**ASKED, n=2)
    assert whole.pacore["calls"] == 4
    assert comments[0].startswith(": round 1 of 1, 4 calls")
    texts = [one["choices"][0]["delta"].get("content") for one in chunks if one["choices"]]
    assert "".join(filter(None, texts)) == whole.choices[0].message.content != ""
    assert refused.status_code == 400
    assert "elects one answer" in refused.text


def test_a_stream_adds_up_to_the_answer(gateway):
    """Same seed, same text, in four pieces, with the role first and the reason last; usage at the end."""
    client = gateway.client()
    whole = client.chat.completions.create(**ASKED)
    chunks = list(
        client.chat.completions.create(**ASKED, stream=True, stream_options={"include_usage": True})
    )
    *parts, last, counts = chunks
    assert parts[0].choices[0].delta.role == "assistant"
    pieces = [chunk.choices[0].delta.content for chunk in parts[1:]]
    assert len(pieces) == 4
    assert "".join(pieces) == whole.choices[0].message.content
    assert last.choices[0].finish_reason == "stop"
    assert counts.usage == whole.usage
    assert counts.model_extra["pacore"] == whole.model_extra["pacore"]


def test_the_first_line_is_a_comment_and_each_round_has_one(gateway):
    """Comments say which round is drawn; chunks have one id."""
    comments, chunks = events_of(gateway)
    assert comments == [
        ": round 1 of 2, 4 calls, 0 s",
        ": round 2 of 2, 1 call, 0 s",
    ]
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert not any("usage" in chunk for chunk in chunks)


def test_n_answers_are_told_apart_by_their_index(gateway):
    """Two answers: the texts are those of the whole response."""
    whole = gateway.post(**ASKED, n=2).json()
    texts = ["", ""]
    for chunk in gateway.client().chat.completions.create(**ASKED, n=2, stream=True):
        texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert texts == [choice["message"]["content"] for choice in whole["choices"]]
    assert texts[0] != texts[1]


def error_event(*texts):
    """A stream that ends with an error after some texts."""

    async def reply(_request, body):
        return stream_response(body, texts, end=[{"error": {"message": "it broke"}}])

    return reply


def cut(*texts):
    """A stream whose connection breaks after some texts."""

    async def reply(_request, body):
        whole = stream_response(body, texts)

        async def part():
            number = 0
            async for event in whole.body_iterator:
                if number > len(texts):
                    raise ConnectionResetError
                number += 1
                yield event

        return StreamingResponse(part(), media_type="text/event-stream")

    return reply


@pytest.mark.parametrize("broken", [error_event(), cut(), reset], ids=["event", "cut", "reset"])
def test_a_break_before_the_first_token_is_retried_once(gateway, server, broken):
    """One further streamed call; the answer is the usual one."""
    expected = gateway.post(**ASKED).json()["choices"][0]["message"]["content"]
    server.always = last_calls(broken)
    server.bodies.clear()
    _, chunks = events_of(gateway)
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks) == expected
    assert sum(bool(body.get("stream")) for body in server.bodies) == 2
    assert gateway.metric("retried_calls_total") == 1


def test_a_second_break_is_an_error(gateway, server):
    """It is retried once, not more."""
    server.always = last_calls(error_event(), then=error_event())
    _, chunks = events_of(gateway)
    assert [chunk["error"]["message"] for chunk in chunks] == ["1 of 1 last calls failed: it broke"]


@pytest.mark.parametrize("broken", [error_event("4"), cut("4")], ids=["event", "cut"])
def test_a_break_after_the_first_token_is_an_error_event(gateway, server, broken):
    """What was delivered stays; no second answer is drawn."""
    server.always = last_calls(broken)
    _, chunks = events_of(gateway)
    *delivered, error = chunks
    assert [chunk["choices"][0]["delta"] for chunk in delivered] == [
        {"role": "assistant", "content": ""},
        {"content": "4"},
    ]
    assert error["error"]["code"] == "call_failed"
    assert sum(bool(body.get("stream")) for body in server.bodies) == 1


def stalled(left):
    """A stream without an end after its first text; ``left`` is set once its client has gone."""

    async def reply(_request, body):
        whole = stream_response(body, ["4"]).body_iterator

        async def events():
            yield await anext(whole)
            yield await anext(whole)
            try:
                await asyncio.Event().wait()
            finally:
                left.set()

        return StreamingResponse(events(), media_type="text/event-stream")

    return reply


def test_a_stream_that_stalls_ends_at_the_deadline(server):
    """After one second: an error event that names the deadline, and the engine's stream is closed."""
    left = threading.Event()
    server.always = last_calls(stalled(left))
    with gateway_of(server, request_timeout_s=1.0) as gateway:
        _, chunks = events_of(gateway)
    assert "no answer within 1 s" in chunks[-1]["error"]["message"]
    assert left.wait(GIVE_UP_S)


def test_a_client_that_leaves_in_the_last_call_ends_it(gateway, server):
    """The client closes the stream after its first token; the engine's stream is closed."""
    left = threading.Event()
    server.always = last_calls(stalled(left))
    stream = gateway.client().chat.completions.create(**ASKED, stream=True)
    next(chunk for chunk in stream if chunk.choices[0].delta.content)
    assert not left.is_set()
    stream.close()
    assert left.wait(GIVE_UP_S)


def test_the_public_client_raises_the_error_event(gateway, server):
    """The client's APIError has the reason."""
    server.always = last_calls(answers({"error": {"message": "no such luck"}}, status=400))
    stream = gateway.client().chat.completions.create(**ASKED, stream=True)
    with pytest.raises(openai.APIError, match="no such luck"):
        list(stream)


class SlowSolver:
    """A solver that needs some time, and fails."""

    async def solve(self, *_args, **_options):
        await asyncio.sleep(0.5)
        raise RuntimeError("a bug")


def test_silence_is_broken_by_comments_and_a_bug_breaks_the_stream():
    """With 0.1 s of silence allowed, half a second has at least two further comments; then the bug is raised."""
    stream = Answer(
        solver=SlowSolver(), question=question(), setting=setting(), model=MODEL, silence_s=0.1
    )
    texts = []

    async def read():
        async for text in stream.texts():
            texts.append(text)  # noqa: PERF401 - kept although the last one raises

    with pytest.raises(RuntimeError, match="a bug"):
        asyncio.run(read())
    assert texts[0] == ": round 1 of 2, 4 calls, 0 s\n\n"
    assert len(texts) >= 3
    assert all(text.startswith(": round 1 of 2, 4 calls") for text in texts)
