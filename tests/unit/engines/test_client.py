"""The client against a real HTTP server: requests, responses, faults."""

import asyncio
import signal
import subprocess
import sys
import threading
import time

import pytest
from starlette.responses import JSONResponse

from pipeline_lib.engines.chat_model import Decoding, Message, Request, Role
from pipeline_lib.engines.client.client import ServerChat
from pipeline_lib.engines.client.connection import EngineDownError
from pipeline_lib.errors import BadInputError
from pipeline_lib.records import FinishReason
from tests.unit.engines.scripted_server import (
    MODEL,
    answers,
    changed,
    completion,
    never,
    reset,
    scripted_server,
    slow,
    usual,
)
from tests.waiting import until

SAMPLED = Decoding(temperature=0.8, top_p=0.95, max_new_tokens=9, stop=("\n\n",))
ONE = [Request(prompt="a", seeds=range(5, 6))]
GIVE_UP_S = 120.0
"""Time limit of a hanging test."""
THREE = [Request(prompt="a", seeds=range(5, 8))]


@pytest.fixture
def server():
    with scripted_server() as running:
        yield running


def test_n_paths_are_one_request(server):
    """Consecutive seeds share a request with n and the first seed; texts are in their order."""
    [[first, *others]] = server.client().complete(THREE, SAMPLED)
    assert [first.text, *(c.text for c in others)] == ["a:5", "a:6", "a:7"]
    [body] = server.bodies
    assert body == {
        "model": MODEL,
        "prompt": "a",
        "n": 3,
        "seed": 5,
        "temperature": 0.8,
        "top_p": 0.95,
        "max_tokens": 9,
        "stop": ["\n\n"],
        "logprobs": 0,
        "add_special_tokens": False,
        "return_token_ids": True,
        "top_k": -1,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
    }


def test_fields_of_a_path(server):
    """Tokens, their log-probabilities and sum, cached tokens, latency; the prompt is billed once."""
    server.script = [slow(0.2)]
    [[first, second, _]] = server.client().complete(THREE, SAMPLED)
    assert first.finish_reason is FinishReason.STOP
    assert (first.prompt_tokens, first.cached_tokens) == (7, 2)
    assert (first.completion_tokens, second.completion_tokens) == (3, 4)
    assert first.token_ids == (0, 1, 2)
    assert first.token_logprobs == (-0.5, -0.5, -0.5)
    assert (first.logprob, second.logprob) == (-1.5, -2.0)
    assert first.latency_s >= 0.2
    assert (first.opens_request, second.opens_request) == (True, False)


def test_seeds_with_gaps_are_split(server):
    """Seeds 5, 6, 9, 4 are runs of two, one and one; the order of problems is kept."""
    requests = [Request(prompt="a", seeds=[5, 6, 9, 4]), Request(prompt="b", seeds=[1])]
    drawn = server.client().complete(requests, SAMPLED)
    assert [[c.text for c in one] for one in drawn] == [["a:5", "a:6", "a:9", "a:4"], ["b:1"]]
    assert sorted(body["n"] for body in server.bodies) == [1, 1, 1, 2]
    assert [c.opens_request for c in drawn[0]] == [True, False, True, True]


def test_greedy_completions_are_single_requests(server):
    """vLLM refuses n > 1 at temperature 0."""
    server.client().complete(THREE, Decoding(temperature=0))
    assert [body["n"] for body in server.bodies] == [1, 1, 1]


@pytest.mark.parametrize(
    ("owner", "sizes"), [("vllm", [3]), ("embedded", [3]), ("sglang", [1] * 3), ("", [1] * 3)]
)
def test_the_owner_of_an_external_server_sets_its_dialect(server, owner, sizes):
    """Completions share a request only if the seeds of n completions are documented."""
    server.models = [{"id": MODEL, "owned_by": owner}]
    client = server.client(engine="url", encode=lambda text: [ord(c) for c in text])
    client.complete(THREE, SAMPLED)
    assert [body["n"] for body in server.bodies] == sizes
    assert sorted(body["seed"] for body in server.bodies) == [5, 6, 7][: len(sizes)]


def test_an_unknown_server_gets_only_openai_fields(server):
    """Some servers refuse unknown fields."""
    server.models = [{"id": MODEL}]
    server.client(engine="url").complete(ONE, Decoding(max_new_tokens=9))
    [body] = server.bodies
    assert set(body) == {"model", "prompt", "n", "seed", "temperature", "top_p", "max_tokens"}


def test_sglang_gets_token_ids(server):
    """It would prepend special tokens to a text; without a tokenizer the client refuses."""
    client = server.client(engine="sglang", encode=lambda text: [ord(c) for c in text])
    client.complete([Request(prompt="ab", seeds=[1])], SAMPLED)
    assert server.bodies[0]["prompt"] == [97, 98]
    with pytest.raises(BadInputError, match=r"serve\.tokenizer"):
        server.client(engine="sglang").complete(ONE, SAMPLED)


def test_the_server_s_own_chat_template(server):
    """With ServerChat the turns go to the chat route; a response may have another model name."""
    server.models = [{"id": MODEL}]
    client = server.client(engine="url", chat_format=ServerChat())
    turns = [
        Message(role=Role.SYSTEM, content="Be brief."),
        Message.user("hi"),
        Message.assistant("hello"),
        Message.user("hello"),
    ]
    prompt = client.chat_format.render(turns)
    [[answer]] = client.complete([Request(prompt=prompt, seeds=[3])], Decoding(max_new_tokens=9))
    assert server.paths == ["/v1/chat/completions"]
    assert server.bodies[0]["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "hello"},
        {"role": "user", "content": "hello"},
    ]
    assert (answer.text, answer.completion_tokens, answer.logprob) == ("you said hello", 4, None)


@pytest.mark.parametrize(
    "fault",
    [
        answers({"error": {"message": "slow down"}}, status=429, headers={"Retry-After": "0.1"}),
        answers({"error": {"message": "oops"}}, status=500),
        reset,
    ],
    ids=["429", "500", "reset within a response"],
)
def test_a_transient_fault_is_retried(server, fault):
    """One fault, then success: after the client's back-off the path is drawn."""
    server.script = [fault]
    [[path]] = server.client().complete(ONE, SAMPLED)
    assert path.text == "a:5"
    assert len(server.bodies) == 2


def test_retry_after_is_respected(server):
    """The retry is not sent before the server's Retry-After."""
    fault = answers({"error": {"message": "slow"}}, status=429, headers={"Retry-After": "1.5"})
    server.script = [fault]
    start = time.monotonic()
    server.client().complete(ONE, SAMPLED)
    assert time.monotonic() - start >= 1.5


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (answers({"error": {"message": "prompt too long"}}, status=400), "status 400: prompt too"),
        (answers(b'{"choices": ['), "the response cannot be read: Invalid JSON"),
        (answers(b"<html>busy</html>"), "read: Invalid JSON: expected value at line 1 column 1"),
        (answers({"choices": []}), "0 completions for 1 requested"),
        (changed(usage=None), "the response has no usage"),
        (changed(model="other"), "the response is from model other, not policy"),
        (changed(choices=[{"text": "x", "finish_reason": "abort"}]), "ended it with 'abort'"),
        (changed(choices=[{"text": "x"}]), "ended it with None"),
        (changed(choices=[{"finish_reason": "stop"}]), "neither text nor message"),
        (
            changed(choices=[{"text": "x", "finish_reason": "stop"}] * 2),
            "2 completions for 1 requested",
        ),
    ],
)
def test_a_permanent_failure_is_a_status(server, reply, error):
    """The text is empty, the error has the reason, and other paths are drawn."""
    server.script = [reply]
    requests = [*ONE, Request(prompt="b", seeds=[1])]
    [[failed], [fine]] = server.client(concurrency=1).complete(requests, SAMPLED)
    assert (failed.text, failed.finish_reason) == ("", FinishReason.ERROR)
    assert error in failed.error
    assert "\n" not in failed.error
    assert fine.text == "b:1"


def test_a_failed_request_fails_all_of_its_paths(server):
    """Three paths of one request are three failures."""
    server.always = answers({"error": {"message": "no"}}, status=400)
    [paths] = server.client().complete(THREE, SAMPLED)
    assert [path.error for path in paths] == ["status 400: no"] * 3


def test_a_response_after_the_deadline_is_a_status(server):
    """The deadline covers all retries; the server sees the disconnect and may stop.

    On a slow machine a deadline may pass before the request arrives: then a longer one is tried.
    """
    server.always = never
    for deadline_s in (0.3, 3.0, 30.0):
        [[path]] = server.client(request_timeout_s=deadline_s).complete(ONE, SAMPLED)
        assert path.error == f"no answer within {deadline_s:g} s; raise serve.request_timeout_s"
        assert path.finish_reason is FinishReason.ERROR
        if server.bodies:
            break
    until(lambda: server.left)


def test_a_server_that_ignores_n(server):
    """It returns one completion for n = 3: the others are requested by their own seeds."""

    async def one_of_them(_request, body):
        whole = completion(body)
        return JSONResponse(whole | {"choices": whole["choices"][:1]})

    server.script = [one_of_them]
    [paths] = server.client().complete(THREE, SAMPLED)
    assert [path.text for path in paths] == ["a:5", "a:6", "a:7"]
    assert [(body["n"], body["seed"]) for body in server.bodies] == [(3, 5), (1, 6), (1, 7)]
    assert [path.opens_request for path in paths] == [True, True, True]


def test_missing_logprobs_are_unknown(server):
    """They are None, also if only some are missing."""
    choice = {"text": "x", "finish_reason": "length"}
    server.script = [
        changed(choices=[choice]),
        changed(choices=[choice | {"logprobs": {"token_logprobs": [-1.0, None]}}]),
    ]
    client = server.client(concurrency=1)
    for _ in range(2):
        [[path]] = client.complete(ONE, SAMPLED)
        assert (path.text, path.logprob, path.token_logprobs) == ("x", None, None)
        assert path.finish_reason is FinishReason.LENGTH


def test_several_completions_that_cannot_be_counted(server):
    """Usage is a sum over n paths; without ids or log-probabilities it cannot be split."""
    server.always = changed(choices=[{"text": "x", "finish_reason": "stop"}] * 3)
    [paths] = server.client().complete(THREE, SAMPLED)
    assert "without token ids" in paths[0].error


def test_concurrency_is_bounded(server):
    """Twelve requests with four slots: four are in flight at once, never five."""
    four = asyncio.Barrier(4)

    async def after_four_requests(request, body):
        await four.wait()
        await asyncio.sleep(0.1)  # time for a fifth to arrive, if the limit failed
        return await usual(request, body)

    server.always = after_four_requests
    requests = [Request(prompt="a", seeds=[10 * i]) for i in range(12)]
    server.client(concurrency=4).complete(requests, SAMPLED)
    assert server.most_in_flight == 4


def test_a_model_that_is_not_served_is_bad_input(server):
    """One line names the served models, before any completion is requested."""
    server.models = [{"id": "other", "owned_by": "vllm"}]
    with pytest.raises(BadInputError, match=r"it serves other, not policy; correct serve\.model"):
        server.client(engine="url").complete(ONE, SAMPLED)
    assert server.bodies == []


def test_a_wrong_address_is_bad_input(server):
    """A server without the route and a server that is down give different errors."""
    client = server.client(engine="url")
    client.endpoint = type(client.endpoint)(
        engine="url", base_url=f"http://127.0.0.1:{server.port}", model=MODEL, identity="x"
    )
    with pytest.raises(BadInputError, match=r"status 404.*correct serve\.url"):
        client.complete(ONE, SAMPLED)


def test_without_a_server_the_draw_fails(server):
    """No path is returned, and finished shards are kept."""
    client = server.client(start_timeout_s=1.0)
    client.endpoint = type(client.endpoint)(
        engine="vllm", base_url="http://127.0.0.1:9/v1", model=MODEL, identity="x"
    )
    with pytest.raises(EngineDownError, match=r"no usable answer for 1 s \(the connection failed"):
        client.complete(ONE, SAMPLED)


KEY = "sk-secret-0123456789"


def test_the_key_is_sent_and_never_shown(server, monkeypatch):
    """It is read from the variable that params name, and removed from errors that quote it."""
    monkeypatch.setenv("MY_KEY", f"{KEY}\n")
    seen = []

    async def refuse(request, _body):
        seen.append(request.headers["authorization"])
        return JSONResponse({"error": {"message": f"bad key {KEY}"}}, 401)

    server.always = refuse
    client = server.client(engine="url", api_key_env="MY_KEY")
    [[path]] = client.complete(ONE, SAMPLED)
    assert seen == [f"Bearer {KEY}"]
    assert path.error == "status 401: bad key ***"
    assert KEY not in repr(client)


def test_started_engines_get_no_key(server, monkeypatch):
    """A key for one server is not sent to another."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    seen = []

    async def look(request, body):
        seen.append(request.headers["authorization"])
        return JSONResponse(completion(body))

    server.always = look
    server.client().complete(ONE, SAMPLED)
    assert seen == ["Bearer none"]


def test_a_proxy_is_not_used_for_started_engines(server, monkeypatch):
    """An engine on 127.0.0.1 is reached although the environment names a missing proxy."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    [[path]] = server.client().complete(ONE, SAMPLED)
    assert path.text == "a:5"


def test_requests_are_sent_again_after_a_restart():
    """The engine dies with six requests in flight and is restarted on its port: all are drawn."""
    requests = [Request(prompt="a", seeds=[10 * i]) for i in range(6)]
    drawn = []
    with scripted_server() as first:
        first.always = never
        client = first.client()
        thread = threading.Thread(target=lambda: drawn.extend(client.complete(requests, SAMPLED)))
        thread.start()
        until(lambda: first.in_flight == 6)
    # Longer than the client's own retries, so that only the wait can recover the requests.
    time.sleep(5)
    with scripted_server(first.port) as second:
        thread.join(GIVE_UP_S)
        assert [path.text for [path] in drawn] == [f"a:{10 * i}" for i in range(6)]
        assert len(second.bodies) == 6


def test_a_request_that_breaks_every_connection_is_a_status(server):
    """The connection breaks each time although the server runs: the request fails."""
    server.always = reset
    [[path]] = server.client().complete(ONE, SAMPLED)
    assert path.finish_reason is FinishReason.ERROR
    assert path.error.startswith("the connection failed")
    # Four by the package's own retries, and four after the engine was seen again.
    assert len(server.bodies) == 8


def test_an_interrupt_ends_a_draw_and_frees_the_server(server):
    """Ctrl-C in the drawing process: it ends at once, and the server may stop generating."""
    server.always = never
    code = (
        # A shell that starts a process in the background makes it ignore the signal.
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from pipeline_lib.params.serve import ServeParams;"
        "from pipeline_lib.engines.chat_model import Decoding, Message, Request, Role;"
        "from pipeline_lib.engines.client.client import OpenAIModel;"
        "from pipeline_lib.engines.identity import Endpoint;"
        f"url = 'http://127.0.0.1:{server.port}/v1';"
        f"there = Endpoint(engine='vllm', base_url=url, model={MODEL!r}, identity='x');"
        "client = OpenAIModel(endpoint=there, serve=ServeParams());"
        "client.complete([Request(prompt='a', seeds=[1])], Decoding())"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            until(lambda: server.in_flight == 1)
            process.send_signal(signal.SIGINT)
            _, stderr = process.communicate(timeout=GIVE_UP_S)
        finally:
            process.kill()
    assert stderr.rstrip().endswith("KeyboardInterrupt")
    until(lambda: server.left == 1)


def test_the_client_waits_for_an_adapter_after_a_restart(server):
    """A restarted engine lists its base before its adapter."""
    server.models_before = [[{"id": "base", "owned_by": "vllm"}]] * 2
    [[path]] = server.client().complete(ONE, SAMPLED)
    assert path.text == "a:5"
    assert server.models_before == []
