"""Disconnects, overload and engine failures: no client waits for a response that cannot come."""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest
import torch
import uvicorn

from pipeline_lib.engines.chat_model import Decoding, Request
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.engines.server.routes import make_app
from tests.waiting import until

MODEL = "models/policy"
LONG = {"model": MODEL, "prompt": "1", "max_tokens": 480, "seed": 1}


@contextlib.contextmanager
def _opened(url: str, body: dict[str, object]) -> Iterator[Iterator[str]]:
    """A stream after its first event; closed at the end of the block."""
    with httpx.stream("POST", f"{url}/completions", json=body | {"stream": True}) as answer:
        assert answer.status_code == 200
        lines = answer.iter_lines()
        assert next(lines).startswith("data: ")
        yield lines


@pytest.fixture
def pending(sample_of) -> Callable[[str], float]:
    names = ("vllm:num_requests_running", "vllm:num_requests_waiting")
    return lambda url: sum(sample_of(url, name) for name in names)


def test_a_closed_stream_frees_its_slots(policy, serving, pending, sample_of):
    """512 paths of 480 tokens, eight at a time: after the client disconnects, no more are drawn."""
    with serving(policy, batch_size=8) as url:
        with _opened(url, LONG | {"n": 512}):
            assert sample_of(url, "vllm:num_requests_running") == 8
            assert sample_of(url, "vllm:num_requests_waiting") > 0
        until(lambda: pending(url) == 0)
        assert sample_of(url, "vllm:request_success_total") < 512


@pytest.mark.parametrize("route", ["completions", "chat/completions"])
def test_a_disconnect_before_the_response_frees_its_slots(
    chat_policy, serving, pending, sample_of, route
):
    """The same without a stream, before the response begins."""
    body = {**LONG, "n": 512, "messages": [{"role": "user", "content": "1"}]}
    del body["messages" if route == "completions" else "prompt"]
    with serving(chat_policy, batch_size=8) as url:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{url}/{route}", json=body, timeout=0.3)
        until(lambda: pending(url) == 0)
        assert sample_of(url, "vllm:request_success_total") < 512


def test_a_disconnect_does_not_affect_others(policy, serving, client_of):
    """A path that shares its batch with a cancelled one equals the path drawn alone."""
    asked = {**LONG, "seed": 8, "max_tokens": 300}
    with serving(policy) as url, client_of(url) as client, ThreadPoolExecutor(1) as pool:
        alone = client.completions.create(**asked).choices[0].text
        with _opened(url, LONG | {"n": 4}):
            beside = pool.submit(client.completions.create, **asked)
            time.sleep(0.05)
        assert beside.result().choices[0].text == alone


def test_a_full_queue_is_429_and_retries_are_served(policy, serving, client_of):
    """Above the limit of pending requests, one is refused with Retry-After, and served later."""
    with serving(policy, batch_size=1, max_pending=64) as url, client_of(url) as client:
        with _opened(url, LONG | {"n": 64}):
            with pytest.raises(openai.RateLimitError) as caught:
                client.completions.create(**LONG)
            assert int(caught.value.response.headers["retry-after"]) >= 1
            assert caught.value.type == "rate_limit_error"
        patient = client.with_options(max_retries=10)
        assert patient.completions.create(**LONG).choices[0].text


def test_paths_wait_for_slots(policy, serving, engine):
    """Nine paths through a batch of two are the nine paths of a batch of 64."""
    [expected] = engine.complete([Request(prompt="1", seeds=range(9))], Decoding(max_new_tokens=30))
    with serving(policy, batch_size=2) as url:
        body = {"model": MODEL, "prompt": "1", "n": 9, "seed": 0, "max_tokens": 30}
        answer = httpx.post(f"{url}/completions", json=body).json()
    assert [choice["text"] for choice in answer["choices"]] == [path.text for path in expected]


def test_counters(policy, serving, client_of, sample_of):
    """Prompt tokens count once per prompt, completion tokens and ends once per path."""
    with serving(policy) as url, client_of(url) as client:
        usage = client.completions.create(model=MODEL, prompt=["1,2", "3"], n=2, seed=1).usage
        assert usage.prompt_tokens == sample_of(url, "vllm:prompt_tokens_total") == 4
        assert usage.completion_tokens == sample_of(url, "vllm:generation_tokens_total")
        assert sample_of(url, "vllm:request_success_total") == 4


@pytest.fixture
def broken(policy) -> Iterator[str]:
    """A server with unusable weights."""
    engine = EmbeddedEngine.load(str(policy), batch_size=4)
    app = make_app(engine, model_name=MODEL)
    engine.model.lm_head.weight = torch.nn.Parameter(torch.zeros(3, 3))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", ws="none"))
    thread = threading.Thread(target=server.run)
    thread.start()
    until(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}/v1"
    server.should_exit = True
    thread.join()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_failed_engine_is_500_for_all(broken):
    """Pending and later requests and streams get an error."""
    url = broken
    body = {"model": MODEL, "prompt": "1"}
    stream = httpx.post(f"{url}/completions", json=body | {"stream": True})
    event = json.loads(stream.text.split("\n\n")[0].removeprefix("data: "))
    assert event["error"]["type"] == "server_error"
    assert "the engine failed: RuntimeError" in event["error"]["message"]
    for answer in (
        httpx.post(f"{url}/completions", json=body),
        httpx.get(f"{url.removesuffix('/v1')}/health"),
        httpx.post(f"{url}/load_lora_adapter", json={"lora_name": "a", "lora_path": "b"}),
    ):
        assert answer.status_code == 500
        assert "the engine failed" in answer.json()["error"]["message"]
