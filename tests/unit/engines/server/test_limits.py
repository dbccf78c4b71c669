"""Limits of requests, and of their origin."""

import asyncio
import json
import socket

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.engines.middleware.host_guard import HostGuard, Hosts
from pipeline_lib.engines.server.front import MAX_BODY_BYTES, BodyLimit
from pipeline_lib.engines.server.prompts import MAX_PROMPT_TOKENS, PromptTokenizer
from pipeline_lib.engines.server.responses import ApiError

MODEL = "models/policy"
BODY = {"model": MODEL, "prompt": "1", "max_tokens": 1}


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"stop": ["a", "b", "c", "d", "e"]}, "stop"),
        ({"stop": "a" * 1001}, "stop"),
        ({"stop": ["a"] * 5000}, "stop"),
        ({"prompt": "1" * 1_000_000}, "prompt"),
        ({"prompt": [1] * 1_000_000}, "prompt"),
        ({"prompt": ["1", "1" * 1_000_000]}, "prompt"),
        ({"prompt": [1] * 513}, "prompt"),
        ({"prompt": [1] * 512}, "max_tokens"),
        ({"prompt": ["1"] * 5000}, "n"),
        ({"model": "m" * 5000}, "model"),
    ],
)
def test_fields_over_their_limits_are_400(base_url, change, param):
    """Stop strings, prompts, names: the field is named, and its value is not repeated."""
    answer = httpx.post(f"{base_url}/completions", json=BODY | change, timeout=60)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param
    assert len(answer.text) < 1000


def test_four_stop_strings_are_served(client):
    """The same limit as OpenAI's."""
    answer = client.completions.create(**BODY, stop=["w", "x", "y", "z"])
    assert answer.choices[0].finish_reason


def test_prompts_of_one_request_share_a_limit(engine):
    """2,049 prompts of 512 tokens are 1,049,088: 512 over the limit of a request."""
    tokenizer = PromptTokenizer(tokenizer=engine.tokenizer, vocabulary_size=9, context_tokens=1024)
    prompts = [range(512)] * 2049
    assert sum(map(len, prompts)) == MAX_PROMPT_TOKENS + 512
    with pytest.raises(ApiError, match="1049088 tokens in one request"):
        tokenizer.max_new_tokens(prompts, 1)
    assert tokenizer.max_new_tokens(prompts[1:], 1) == 1


def test_without_a_declared_length_prompts_are_limited_too(engine: EmbeddedEngine):
    """To 131,072 tokens, for a model whose config has no context length."""
    tokenizer = PromptTokenizer(tokenizer=engine.tokenizer, vocabulary_size=9, context_tokens=None)
    assert len(tokenizer.encode([1] * 2**17)) == 2**17
    with pytest.raises(ApiError, match="131072"):
        tokenizer.encode([1] * (2**17 + 1))


def test_token_ids_are_in_the_vocabulary(engine: EmbeddedEngine):
    """From 0 to one less than its size."""
    tokenizer = PromptTokenizer(tokenizer=engine.tokenizer, vocabulary_size=9, context_tokens=None)
    assert tokenizer.encode([0, 8]) == [0, 8]
    for outside in (-1, 9):
        with pytest.raises(ApiError, match="not in"):
            tokenizer.encode([0, outside])


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "in chunks"])
def test_a_long_body_is_413(base_url, declared):
    """With a Content-Length or chunked; the server then serves the next request."""
    content = b" " * (MAX_BODY_BYTES + 1)
    kind = {"content-type": "application/json"}
    chunks = content if declared else iter([content[: 1 << 20]] * 17)
    try:
        answer = httpx.post(f"{base_url}/completions", content=chunks, headers=kind, timeout=60)
    except httpx.TransportError:
        # The refusal arrived, and the connection closed, while the body was still being sent.
        pass
    else:
        assert answer.status_code == 413
        assert "send less" in answer.json()["error"]["message"]
    assert httpx.post(f"{base_url}/completions", json=BODY).status_code == 200


@pytest.mark.parametrize(
    ("sizes", "status"), [([9], 200), ([4, 5, 0], 200), ([10], 413), ([5, 5], 413), ([], None)]
)
def test_the_limit_applies_to_the_whole_body(sizes, status):
    """Nine bytes are passed on, ten are not, and neither is the body of a client that disconnects."""
    sent, read = [], []

    async def app(_scope, receive, send):
        message = await receive()
        read.append(message)
        if message["type"] == "http.request":
            await send({"type": "http.response.start", "status": 200, "headers": []})

    messages = [
        {"type": "http.request", "body": b"x" * size, "more_body": place < len(sizes) - 1}
        for place, size in enumerate(sizes)
    ] or [{"type": "http.disconnect"}]

    async def receive():
        return messages.pop(0)

    async def send(message):
        sent.append(message)

    asyncio.run(BodyLimit(app, most_bytes=9)({"type": "http", "headers": []}, receive, send))
    assert [message["status"] for message in sent if "status" in message] == (
        [status] if status else []
    )
    assert [message.get("body") for message in read] == (
        [b"x" * 9] if status == 200 else [] if status else [None]
    )


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "evil.example:8300"},
        {"host": "127.0.0.1.evil.example"},
        {"host": "localhost.evil.example"},
        {"host": "localhost@evil.example"},
        {"host": "evil.example#127.0.0.1"},
        {"host": "192.168.1.7"},
        {"host": "0.0.0.0"},
        {"host": "2130706433"},
        {"host": ""},
        {"origin": "http://evil.example"},
        {"origin": "https://127.0.0.1.evil.example"},
        {"origin": "null"},
        {"origin": "file://"},
        {"origin": ""},
    ],
)
@pytest.mark.parametrize("route", ["models", "completions", "load_lora_adapter"])
def test_other_names_and_other_sites_are_403(base_url, route, headers):
    """DNS rebinding to 127.0.0.1, and cross-origin requests."""
    method = "GET" if route == "models" else "POST"
    answer = httpx.request(method, f"{base_url}/{route}", json=BODY, headers=headers)
    assert answer.status_code == 403
    assert next(iter(headers)) in answer.json()["error"]["message"].lower()


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "localhost"},
        {"host": "LocalHost.:9000"},
        {"host": "127.0.0.1:1"},
        {"host": "127.9.9.9"},
        {"host": "[::1]:8300"},
        {"origin": "http://localhost:3000"},
        {"origin": "http://127.0.0.1"},
    ],
)
def test_this_machine_has_several_names(base_url, headers):
    """On any forwarded port."""
    assert httpx.get(f"{base_url}/models", headers=headers).status_code == 200


@pytest.mark.parametrize("lines", [[], [b"Host: localhost", b"Host: evil.example"]])
def test_exactly_one_host_header_is_required(base_url, lines):
    """Requests with none, as in HTTP/1.0, or with two are refused."""
    url = httpx.URL(base_url)
    request = b"\r\n".join([b"GET /v1/models HTTP/1.0", *lines, b"", b""])
    with socket.create_connection((url.host, url.port), timeout=60) as connection:
        connection.sendall(request)
        status = connection.recv(1000).split(b"\r\n")[0]
    assert status.split()[1] in {b"400", b"403"}


def test_further_names_can_be_allowed():
    """The given ones, in any case; any IP address if the server listens on all of them."""
    named = Hosts(names=frozenset({"gpu-box"}))
    assert named.allow("GPU-Box:8300")
    assert not named.allow("gpu-box.evil.example")
    assert not named.allow("10.0.0.7")
    assert Hosts(any_address=True).allow("10.0.0.7:80")
    assert not Hosts(any_address=True).allow("evil.example")


def test_sockets_are_guarded_too():
    """A web socket of another site is closed before it is accepted; lifespan events pass."""
    sent, passed = [], []

    async def app(scope, _receive, _send):
        passed.append(scope["type"])

    async def send(message):
        sent.append(message)

    async def call(scope):
        await HostGuard(app)(scope, None, send)

    own, other = [(b"host", b"localhost")], [(b"Host", b"evil.example")]
    asyncio.run(call({"type": "lifespan"}))
    asyncio.run(call({"type": "websocket", "headers": own}))
    asyncio.run(call({"type": "websocket", "headers": other}))
    assert passed == ["lifespan", "websocket"]
    assert [message["type"] for message in sent] == ["websocket.close"]


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(10**40), max_value=10**40)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["\ud800", "\x00", "models/policy", "1,2=3"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=2)
    ),
    max_leaves=6,
)
_KEYS = [
    "model",
    "prompt",
    "messages",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "n",
    "seed",
    "stop",
    "stream",
    "stream_options",
    "logprobs",
    "top_logprobs",
    "return_token_ids",
    "add_special_tokens",
    "echo",
    "best_of",
    "top_k",
    "lora_name",
    "lora_path",
    "load_inplace",
]
_ROUTES = ["completions", "chat/completions", "load_lora_adapter", "unload_lora_adapter"]


@given(
    route=st.sampled_from(_ROUTES),
    changes=st.dictionaries(st.sampled_from(_KEYS), _JSON, min_size=1, max_size=3),
)
def test_no_body_causes_a_5xx(base_url, route, changes):
    """Any JSON value under any key is served, or refused in OpenAI's format, in finite JSON."""
    base = {
        "completions": BODY,
        "chat/completions": {"messages": [{"role": "user", "content": "1"}], "max_tokens": 1},
    }.get(route, {"lora_name": "a", "lora_path": "nowhere"})
    content = json.dumps(base | changes).encode()
    kind = {"content-type": "application/json"}
    answer = httpx.post(f"{base_url}/{route}", content=content, headers=kind, timeout=60)
    assert answer.status_code < 500
    if answer.status_code >= 400:
        assert answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 1_000_000,
        b'{"prompt":' * 100_000,
        b'{"prompt": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"prompt": "a", "n": ' + b"9" * 10_000 + b"}",
        b'{"prompt": "a", "temperature": 1e999}',
        b'{"prompt": "a", "temperature": NaN}',
        b"\xff\xfe\x00",
        b"\x00",
        b"",
    ],
    ids=[
        "lists",
        "objects",
        "closed lists",
        "digits",
        "infinity",
        "not a number",
        "no text",
        "a null byte",
        "nothing",
    ],
)
@pytest.mark.parametrize("route", _ROUTES)
def test_unusable_json_is_400(base_url, route, content):
    """Very deep nesting, numbers of thousands of digits, an empty body."""
    kind = {"content-type": "application/json"}
    answer = httpx.post(f"{base_url}/{route}", content=content, headers=kind, timeout=60)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"
