"""The gateway over a pool of workers: answers, streams, counts, no worker left."""

import json

import httpx
import pytest

from pipeline_lib.params_file import load_params
from pipeline_lib.systems.pacore.worker_pool import WorkerLostError
from tests.unit.engines.scripted_server import MODEL
from tests.unit.systems.pacore.fake_workers import FakeWorker, found_of, pool_of
from tests.unit.systems.pacore.running_gateway import running_gateway

TURNS = [{"role": "user", "content": "What is 6 times 7?"}]
NUM_CALLS = 17
NUM_REQUESTS = 3
"""To workers: two of 8 paths, and the synthesis."""


def gateway_over(pool):
    return running_gateway(pool, load_params())


def answer_of(gateway, **more):
    answer = gateway.post(model=f"{MODEL}:medium", messages=TURNS, seed=3, **more)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_answer_does_not_depend_on_the_workers():
    """One worker and two give the same text; the calls of both are counted."""
    with gateway_over(pool_of(FakeWorker("1"))) as gateway:
        alone = answer_of(gateway)
    workers = [FakeWorker("1", calls_together=1), FakeWorker("2", calls_together=1)]
    with gateway_over(pool_of(*workers)) as gateway:
        shared = answer_of(gateway)
        assert gateway.metric("workers") == 2
        counted = [gateway.metric("worker_calls_total", worker=name) for name in ("1", "2")]
    assert shared["choices"] == alone["choices"]
    assert shared["pacore"]["calls"] == NUM_CALLS
    assert counted == [len(worker.calls) for worker in workers]
    assert sum(counted) == NUM_REQUESTS


def test_a_stream_has_the_text_of_the_whole_answer():
    """In one piece, after comments."""
    with gateway_over(pool_of(FakeWorker("1"))) as gateway:
        whole = answer_of(gateway)["choices"][0]["message"]["content"]
        text = gateway.post(model=f"{MODEL}:medium", messages=TURNS, seed=3, stream=True).text
    lines = [
        line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: {")
    ]
    deltas = [json.loads(line)["choices"][0]["delta"] for line in lines]
    assert [delta["content"] for delta in deltas if delta.get("content")] == [whole]
    assert text.startswith(":")


def test_a_lost_worker_costs_no_answer():
    """Its calls go to the other one, as retries."""
    lost, alive = FakeWorker("1", fault=WorkerLostError), FakeWorker("2")
    with gateway_over(pool_of(lost, alive)) as gateway:
        answer_of(gateway)
        assert gateway.metric("retried_calls_total") >= 1
        assert gateway.metric("worker_calls_total", worker="2") == NUM_REQUESTS


@pytest.mark.parametrize("route", ["health", "chat"])
def test_without_a_worker_the_status_is_503(route):
    """At once for the health, after the patience for a request."""
    pool = pool_of(FakeWorker("1"), patience_s=0.1)
    pool.find = found_of([])
    pool.update({})
    with gateway_over(pool) as gateway:
        if route == "health":
            answer = httpx.get(f"{gateway.root_url}/health")
        else:
            answer = gateway.post(model=MODEL, messages=TURNS)
    assert answer.status_code == 503
    assert "no worker of A" in answer.json()["error"]["message"]
