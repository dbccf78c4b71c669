"""Requests of the gateway over a scripted server: names, fields, counts, failures."""

import asyncio
import contextlib
import itertools
import threading
import time

import httpx
import openai
import pytest

from pipeline_lib.engines.client.session import gather_all
from pipeline_lib.engines.server.front import MAX_BODY_BYTES
from pipeline_lib.engines.server.responses import ApiError
from pipeline_lib.systems.pacore.gateway.requests import preset_of
from tests.unit.engines.scripted_server import MODEL, answers, never, scripted_server
from tests.unit.systems.pacore.running_gateway import gateway_of
from tests.unit.systems.pacore.scripted_chat import by_seed
from tests.waiting import until

TURNS = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Are you there?"},
    {"role": "assistant", "content": "Yes."},
    {"role": "user", "content": "What is 6 times 7?"},
]
GIVE_UP_S = 60.0
AT_ONCE_S = 3.0
"""Less than the retries of a request need."""
refused = answers({"error": {"message": "no such luck"}}, status=400)


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


def is_synthesis(body):
    return "Candidate solution" in body["messages"][-1]["content"]


def failing_last():
    """The syntheses are refused."""

    async def reply(request, body):
        return await (refused if is_synthesis(body) else by_seed())(request, body)

    return reply


@pytest.mark.parametrize(
    ("name", "more", "calls"),
    [
        (MODEL, {}, 1),
        (f"{MODEL}:low", {}, 5),
        (f"{MODEL}:medium", {}, 17),
        (f"{MODEL}:high", {}, 37),
        (MODEL, {"reasoning_effort": "low"}, 5),
        (MODEL, {"reasoning_effort": "none"}, 1),
        (f"{MODEL}:low", {"reasoning_effort": "high"}, 5),
        (MODEL, {"pacore": {"widths": [8, 2]}}, 11),
        (f"{MODEL}:high", {"pacore": {"widths": [2]}}, 3),
        (f"{MODEL}:low", {"pacore": {"compaction": "answer"}}, 5),
        (MODEL, {"pacore": {"compaction": "model"}}, 9),
        (MODEL, {"pacore": {}}, 5),
    ],
)
def test_calls_by_name_effort_and_field(gateway, server, name, more, calls):
    """Sum of the widths and one, and a summary a path; fields beat names, names beat the effort."""
    answer = gateway.post(model=name, messages=TURNS, **more)
    assert answer.status_code == 200, answer.text
    assert len(server.bodies) == calls
    assert answer.json()["pacore"]["calls"] == calls


@pytest.mark.parametrize("name", ["other", "other:low", f"{MODEL}:huge", f"{MODEL}:", f":{MODEL}"])
def test_other_names_are_404(gateway, server, name):
    """A colon separates a preset alone; the message lists the names."""
    answer = gateway.post(model=name, messages=TURNS)
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "model_not_found"
    assert f"{MODEL}:high" in answer.json()["error"]["message"]
    assert server.bodies == []


def test_a_colon_of_the_model_s_own_name_is_kept():
    """The name is split at its last colon, and not at all if it is the model's own."""
    assert preset_of("tag:low", "tag:low") is None
    assert preset_of("tag:low:high", "tag:low") == "high"
    with pytest.raises(ApiError):
        preset_of("tag", "tag:low")


@pytest.mark.parametrize(("given", "expected"), [({}, [1.0, 0.1]), ({"temperature": 0.5}, [0.5])])
def test_the_temperature_of_a_request_holds_for_all_calls(server, given, expected):
    """Also for the last, which has one of its own in the params."""
    with gateway_of(server, "pacore.last_temperature=0.1") as gateway:
        assert gateway.post(model=f"{MODEL}:low", messages=TURNS, **given).status_code == 200
    assert sorted({body["temperature"] for body in server.bodies}, reverse=True) == expected


def test_a_plain_call_has_the_seed_and_the_sampling_of_the_request(gateway, server):
    """One request equal to the one of the engine's own chat route."""
    gateway.post(
        model=MODEL,
        messages=TURNS,
        seed=5,
        temperature=0.5,
        top_p=0.9,
        max_completion_tokens=7,
        stop=["\n"],
    )
    assert server.bodies == [
        {
            "model": MODEL,
            "messages": TURNS,
            "n": 1,
            "seed": 5,
            "temperature": 0.5,
            "top_p": 0.9,
            "max_tokens": 7,
            "stop": ["\n"],
        }
    ]


def test_sampling_holds_for_all_rounds_and_defaults_are_the_params(server):
    """Fields of the request are sent in every call; the params give the others."""
    with gateway_of(server, "pacore.temperature=0.3", "pacore.max_new_tokens=9") as gateway:
        gateway.post(model=f"{MODEL}:low", messages=TURNS, top_p=0.8)
    sampled = {(body["temperature"], body["top_p"], body["max_tokens"]) for body in server.bodies}
    assert sampled == {(0.3, 0.8, 9)}


def test_turns_are_kept_and_the_last_one_carries_the_references(gateway, server):
    """System message and earlier turns are in every call; reasoning that a client sends back is not."""
    turns = [dict(turn) for turn in TURNS]
    turns[2]["reasoning_content"] = "hm"
    answer = gateway.client().chat.completions.create(model=f"{MODEL}:low", messages=turns)
    assert all(body["messages"][:-1] == TURNS[:-1] for body in server.bodies)
    assert [is_synthesis(body) for body in server.bodies] == [False] * 4 + [True]
    assert answer.choices[0].message.content


def test_usage_is_the_sum_over_all_calls(gateway):
    """37 calls of 12 and 4 tokens; 36 of them before the last are reasoning. Rounds are counted apart."""
    answer = gateway.client().chat.completions.create(model=f"{MODEL}:high", messages=TURNS)
    assert answer.usage.prompt_tokens == 37 * 12
    assert answer.usage.completion_tokens == 37 * 4
    assert answer.usage.total_tokens == 37 * 16
    assert answer.usage.completion_tokens_details.reasoning_tokens == 36 * 4
    rounds = answer.model_extra["pacore"]["rounds"]
    assert [(one["asked"], one["failed"], one["dropped"]) for one in rounds] == [
        (32, 0, 0),
        (4, 0, 0),
        (1, 0, 0),
    ]


def test_a_seed_gives_the_same_answer(gateway, server):
    """Twice the same requests; without a seed it is random, and is reported."""

    def ask(**more):
        server.bodies.clear()
        answer = gateway.post(model=f"{MODEL}:low", messages=TURNS, **more).json()
        return answer["choices"][0]["message"]["content"], answer["pacore"]["seed"]

    first = ask(seed=3)
    assert ask(seed=3) == first
    free, seed = ask()
    assert ask(seed=seed) == (free, seed)
    assert ask()[1] != seed


@pytest.mark.parametrize("stream", [False, True])
def test_n_answers_share_the_references(gateway, server, stream):
    """n=3: four paths, then three calls with one prompt and three seeds."""
    body = {"model": f"{MODEL}:low", "messages": TURNS, "seed": 1, "n": 3, "stream": stream}
    answer = gateway.post(**body)
    assert answer.status_code == 200
    *paths, one, two, three = server.bodies
    assert len(paths) == 4
    assert one["messages"] == two["messages"] == three["messages"]
    assert len({one["seed"], two["seed"], three["seed"]}) == 3


def test_a_failed_path_is_counted_and_a_failed_last_call_is_502(gateway, server):
    """Two refused paths leave an answer; a refused synthesis is an error that names the reason."""
    server.script = [refused] * 2
    answer = gateway.post(model=f"{MODEL}:low", messages=TURNS)
    assert answer.json()["pacore"]["rounds"][0]["failed"] == 2
    server.always = failing_last()
    answer = gateway.post(model=f"{MODEL}:low", messages=TURNS)
    assert answer.status_code == 502
    error = answer.json()["error"]
    assert (error["type"], error["code"]) == ("server_error", "call_failed")
    assert "no such luck" in error["message"]
    assert gateway.metric("failures_total", reason="call_failed") == 1


def test_labels_of_a_message_are_dropped_and_its_name_is_kept(gateway, server):
    """Paths and their synthesis are asked in the name of the message's author."""
    turn = {"role": "user", "content": "a", "name": "ann"}
    answer = gateway.post(model=f"{MODEL}:low", messages=[turn | {"type": "text", "id": "m1"}])
    assert answer.status_code == 200, answer.text
    paths, [synthesis] = server.bodies[:-1], server.bodies[-1]["messages"]
    assert [body["messages"] for body in paths] == [[turn]] * 4
    assert synthesis == turn | {"content": synthesis["content"]}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"logprobs": True}, "logprobs is not supported"),
        ({"return_token_ids": True}, "return_token_ids is not supported"),
        ({"tools": [{"type": "function"}]}, "tools is not supported"),
        ({"messages": TURNS[:3]}, "the last one must be the user's"),
        ({"messages": [TURNS[-1] | {"tool_calls": [{}]}]}, "tool_calls is not supported"),
        ({"reasoning_effort": "huge"}, "give none, low, medium, high"),
        ({"pacore": {"widths": []}}, "pacore.widths"),
        ({"pacore": {"widths": [0]}}, "pacore.widths"),
        ({"pacore": {"widths": [1000, 24]}}, "1025 calls with n=1 answers; at most 1024"),
        ({"pacore": {"widths": [1000]}, "n": 25}, "1025 calls with n=25 answers; at most 1024"),
        ({"pacore": {}, "reasoning_effort": "none"}, "none is one plain call"),
        ({"seed": 2**63 - 2, "n": 3}, "end above 2^63 - 1"),
        ({"pacore": {"width": [2]}}, "pacore.width"),
        ({"n": 129}, "n=129; at most 128"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_unusable_requests_are_400_before_any_call(gateway, server, more, message):
    """The message names the field."""
    answer = gateway.post(**{"model": MODEL, "messages": TURNS} | more)
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]
    assert server.bodies == []


def test_other_hosts_and_long_bodies_are_refused(gateway):
    """403 for a name that a web page could have made its own; 413 for too many bytes."""
    url = f"{gateway.base_url}/models"
    assert httpx.get(url, headers={"Host": "example.org"}).status_code == 403
    long = httpx.post(f"{gateway.base_url}/chat/completions", content=b" " * (MAX_BODY_BYTES + 1))
    assert long.status_code == 413


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_ends_its_calls(gateway, server, stream):
    """Four calls are open; the client closes its connection; the server sees four clients leave."""
    server.always = never
    body = {"model": f"{MODEL}:low", "messages": TURNS, "stream": stream}
    address = f"{gateway.base_url}/chat/completions"

    async def leave():
        async with httpx.AsyncClient() as client:
            asking = asyncio.create_task(client.post(address, json=body, timeout=GIVE_UP_S))
            await asyncio.to_thread(until, lambda: server.in_flight == 4)
            asking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asking

    asyncio.run(leave())
    until(lambda: server.left == 4)
    until(lambda: gateway.metric("requests_in_flight") == 0)
    assert gateway.metric("failures_total", reason="client_left") == 1
    assert server.in_flight == 0


def test_a_full_gateway_is_429(server):
    """One request in flight is the most: the second is refused with Retry-After, the first is answered."""
    release = threading.Event()

    async def held(request, body):
        await asyncio.to_thread(release.wait)
        return await by_seed()(request, body)

    server.always = held
    with gateway_of(server, "pacore.max_requests=1") as gateway:
        codes = []
        first = threading.Thread(
            target=lambda: codes.append(gateway.post(model=MODEL, messages=TURNS).status_code)
        )
        first.start()
        until(lambda: server.in_flight == 1)
        second = gateway.post(model=MODEL, messages=TURNS)
        assert (second.status_code, second.headers["retry-after"]) == (429, "1")
        assert second.json()["error"]["type"] == "rate_limit_error"
        release.set()
        first.join()
        assert codes == [200]
        assert gateway.post(model=MODEL, messages=TURNS).status_code == 200


def test_an_engine_that_is_down_is_503_and_then_back():
    """Beyond the patience: 503 with Retry-After, again at once, and /health; then an answer again."""
    with scripted_server() as engine:
        engine.models, engine.always = [{"id": MODEL}], by_seed()
        port = engine.port
        opened = contextlib.ExitStack()
        gateway = opened.enter_context(gateway_of(engine, engine="vllm", start_timeout_s=1.0))
        assert httpx.get(f"{gateway.root_url}/health").status_code == 200
    with opened:
        first = gateway.post(model=f"{MODEL}:low", messages=TURNS)
        assert (first.status_code, first.headers["retry-after"]) == (503, "1")
        assert httpx.get(f"{gateway.root_url}/health").status_code == 503
        start = time.monotonic()
        assert gateway.post(model=MODEL, messages=TURNS).status_code == 503
        assert time.monotonic() - start < AT_ONCE_S
        assert gateway.metric("failures_total", reason="engine_down") == 2
        with scripted_server(port) as engine:
            engine.models, engine.always = [{"id": MODEL}], by_seed()
            assert gateway.post(model=MODEL, messages=TURNS).status_code == 200
            assert httpx.get(f"{gateway.root_url}/health").status_code == 200


def test_metrics_add_up(gateway, server):
    """Two requests of 5 and 1 calls, one path refused: calls, tokens, rounds."""
    server.script = [refused]
    gateway.post(model=f"{MODEL}:low", messages=TURNS)
    gateway.post(model=MODEL, messages=TURNS)
    assert gateway.metric("requests_answered_total") == 2
    assert gateway.metric("calls_total") == 6
    assert gateway.metric("failed_calls_total") == 1
    assert gateway.metric("prompt_tokens_total") == 5 * 12
    assert gateway.metric("completion_tokens_total") == 5 * 4
    assert gateway.metric("round_seconds_count") == 3
    assert gateway.metric("round_seconds_sum") > 0
    assert gateway.metric("requests_in_flight") == 0


@pytest.mark.parametrize(
    ("more", "held"), [({}, 4), ({"stream": True, "n": 3}, 7)], ids=["paths", "streamed answers"]
)
def test_calls_of_an_unfinished_round_are_counted(gateway, server, more, held):
    """All calls of a round but one have ended: 3 of 4 paths, or 4 paths and 2 of 3 answers."""
    release, numbers = threading.Event(), itertools.count(1)

    async def one_held(request, body):
        if next(numbers) == held:
            await asyncio.to_thread(release.wait)
        return await by_seed()(request, body)

    server.always = one_held
    asking = threading.Thread(
        target=lambda: gateway.post(model=f"{MODEL}:low", messages=TURNS, **more)
    )
    asking.start()
    try:
        until(lambda: gateway.metric("calls_total") == held - 1)
        assert gateway.metric("completion_tokens_total") == 4 * (held - 1)
        assert gateway.metric("requests_in_flight") == 1
    finally:
        release.set()
        asking.join()
    assert gateway.metric("calls_total") == 4 + more.get("n", 1)


def test_the_largest_seed_of_n_answers(gateway, server):
    """2^63 - 3 and two more."""
    assert gateway.post(model=MODEL, messages=TURNS, seed=2**63 - 3, n=3).status_code == 200
    assert sorted(body["seed"] for body in server.bodies) == [2**63 - 3, 2**63 - 2, 2**63 - 1]


def test_limits_of_a_request_do_not_hold_for_summaries(gateway, server):
    """Four paths and a synthesis of 7 tokens with a stop string, four summaries of `pacore.summary_tokens`."""
    given = {"max_tokens": 7, "stop": ["\n"], "pacore": {"widths": [4], "compaction": "model"}}
    assert gateway.post(model=MODEL, messages=TURNS, **given).status_code == 200
    limits = [(body["max_tokens"], body.get("stop")) for body in server.bodies]
    assert limits == [(7, ["\n"])] * 4 + [(256, None)] * 4 + [(7, ["\n"])]


def test_twenty_clients_at_once(gateway):
    """Each has its own answer, the one that it has alone."""

    async def ask():
        async with openai.AsyncOpenAI(base_url=gateway.base_url, api_key="none") as client:
            create = client.chat.completions.create
            asked = {"model": f"{MODEL}:low", "messages": TURNS}
            given = await gather_all([create(**asked, seed=seed) for seed in range(20)])
        return [answer.choices[0].message.content for answer in given]

    texts = asyncio.run(ask())
    alone = gateway.post(model=f"{MODEL}:low", messages=TURNS, seed=7).json()
    assert texts[7] == alone["choices"][0]["message"]["content"]
    assert len(set(texts)) == 20
