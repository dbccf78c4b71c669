"""Test steps that are common to all real engines."""

import os
import pathlib
import signal
import threading
from collections.abc import Callable, Iterable
from typing import Any

import httpx

from pipeline_lib.engines.chat_model import Decoding, Request
from pipeline_lib.engines.client.client import OpenAIModel
from pipeline_lib.engines.identity import Endpoint
from pipeline_lib.engines.launch.supervised import SupervisedEngine
from pipeline_lib.engines.running_engine import RunningEngine
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.records import FinishReason
from tests.waiting import until

PROMPTS = ["12,5,3=51\n", "5,3=8\n", "3=", "12+5=17\n"]


def process_ids(engine: SupervisedEngine) -> list[int]:
    """Its processes that live."""
    assert engine._process is not None
    return [child.pid for child in engine._process.processes]


def metric(endpoint: Endpoint, name: str) -> float:
    """The sum of one metric's samples."""
    text = httpx.get(endpoint.base_url.removesuffix("/v1") + "/metrics", trust_env=False).text
    lines = [line for line in text.splitlines() if line.startswith(f"{name}{{")]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def complete(endpoint: Endpoint, prompt: str, **fields: Any) -> httpx.Response:
    """One plain request."""
    body = {"model": endpoint.model, "prompt": prompt, **fields}
    return httpx.post(f"{endpoint.base_url}/completions", json=body, timeout=120, trust_env=False)


def greedy_ids(endpoint: Endpoint, *, tokens: int) -> list[list[int]]:
    """The endpoint's greedy tokens after PROMPTS.

    Not texts: servers decode bytes that are not UTF-8 differently.
    """
    fields = {"max_tokens": tokens, "temperature": 0, "return_token_ids": True}
    answers = [complete(endpoint, prompt, **fields) for prompt in PROMPTS]
    return [answer.json()["choices"][0]["token_ids"] for answer in answers]


def send(number: signal.Signals, pids: Iterable[int]) -> None:
    """Send the signal to all processes."""
    for pid in pids:
        os.kill(pid, number)


def kill_while_sampling(engine: RunningEngine, serve: ServeParams, victim: int) -> None:
    """Kill a process once tokens are drawn; every path of the running draw still arrives."""
    before = metric(engine.endpoint, "vllm:generation_tokens_total")
    restarts = engine.restarts

    def kill() -> None:
        until(
            lambda: metric(engine.endpoint, "vllm:generation_tokens_total") > before + 50,
            timeout_s=60,
        )
        os.kill(victim, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    requests = [Request(prompt=prompt, seeds=range(8)) for prompt in PROMPTS]
    decoding = Decoding(temperature=1.5, max_new_tokens=400)
    groups = OpenAIModel(endpoint=engine.endpoint, serve=serve).complete(requests, decoding)
    killer.join()
    reasons = [completion.finish_reason for group in groups for completion in group]
    assert len(reasons) == 32
    assert FinishReason.ERROR not in reasons
    assert engine.restarts == restarts + 1


def swap_adapters(
    engine: RunningEngine, folders: list[pathlib.Path], greedy: Callable[..., list[list[int]]]
) -> None:
    """Two versions in turn: each equals the merged model, and the old one is no longer served."""
    base = greedy(PROMPTS, None, tokens=16)
    assert greedy_ids(engine.endpoint, tokens=16) == base
    first = engine.load_adapter("policy", folders[0], "1")
    assert greedy_ids(first, tokens=16) == greedy(PROMPTS, folders[0], tokens=16) != base
    second = engine.load_adapter("policy", folders[1], "2")
    assert greedy_ids(second, tokens=16) == greedy(PROMPTS, folders[1], tokens=16) != base
    refused = complete(first, PROMPTS[0], max_tokens=1)
    assert refused.status_code == (400 if first.engine == "sglang" else 404)
    assert "policy@1" in refused.text
    assert greedy_ids(engine.endpoint, tokens=16) == base
