"""The client on real engines: paths over HTTP equal those of the model in process.

The embedded server runs always; vLLM (`make serve-env`) is slow to start, and the simulated SGLang needs a request
for each completion.
"""

import numpy as np
import pytest
import torch

from benchmarks.lib.repository import REPOSITORY
from pipeline_lib.engines.chat_model import Decoding, Request
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.engines.running_engine import serving_engine
from pipeline_lib.engines.started_engine import connect
from pipeline_lib.params.paths import BootstrapParams, CountdownParams
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.problems.countdown import generate
from pipeline_lib.records import FinishReason
from pipeline_lib.sampling.prompts import render
from pipeline_lib.sampling.worked import solution_rows
from pipeline_lib.seeding import consecutive_seeds
from pipeline_lib.train.bootstrap import make_base_policy
from tests.unit.engines.sglang.environment import make_environment

ENVIRONMENT = REPOSITORY / ".venv-serve"
VLLM = pytest.param(
    "vllm",
    marks=[
        pytest.mark.slow,
        pytest.mark.timeout(900),
        pytest.mark.skipif(
            not (ENVIRONMENT / "bin" / "python").exists(), reason="no vLLM: make serve-env"
        ),
    ],
)
SGLANG = pytest.param("sglang", marks=pytest.mark.slow)
# Float32 on both sides, so that results are equal.
OPTIONS = {"vllm": ("--dtype", "float32"), "sglang": ("--dtype", "float32"), "embedded": ()}
SAMPLED = Decoding(temperature=0.7, top_p=0.95, max_new_tokens=24)
PROBLEMS = generate(CountdownParams(num_numbers=3), seed=9, count=24)
PROMPTS = [render(problem, None) for problem in PROBLEMS]


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    """The project's small policy, with heads of 32 channels as vLLM's attention needs."""
    folder = tmp_path_factory.mktemp("policy") / "base"
    params = BootstrapParams(hidden_size=64, num_layers=2, num_heads=2, steps=40)
    problems = generate(CountdownParams(num_numbers=3), seed=4, count=200)
    make_base_policy(solution_rows(problems, None), folder, params=params, seed=1, key="base")
    return folder


@pytest.fixture(scope="module")
def reference(policy):
    """The model in this process."""
    return EmbeddedEngine.load(str(policy), batch_size=64)


@pytest.fixture(scope="module", params=["embedded", SGLANG, VLLM])
def client(request, policy, tmp_path_factory):
    """The client of an engine that runs during the tests of this file."""
    name, environment = request.param, ENVIRONMENT
    if name == "sglang":
        environment = make_environment(tmp_path_factory.mktemp("sglang") / "environment")
    serve = ServeParams(
        engine=name, port=18700, environment=str(environment), options=OPTIONS[name]
    )
    logs = tmp_path_factory.mktemp("logs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
        with serving_engine(serve, model=str(policy), log_folder=logs) as engine:
            yield connect(engine.endpoint, serve, model=str(policy))


@pytest.mark.parametrize("stop", [(), ("\n",), ("=1", "+1")], ids=["none", "line", "two"])
def test_greedy_equals_the_embedded_engine(client, reference, stop):
    """For 24 prompts: text, tokens, end, counts and log-probabilities, with stop strings and without."""
    requests = [Request(prompt=prompt, seeds=[0]) for prompt in PROMPTS]
    greedy = Decoding(temperature=0, max_new_tokens=24, stop=stop)
    served, in_process = client.complete(requests, greedy), reference.complete(requests, greedy)
    for [there], [here] in zip(served, in_process, strict=True):
        assert (there.text, there.token_ids) == (here.text, here.token_ids)
        assert there.finish_reason is here.finish_reason
        assert there.prompt_tokens == here.prompt_tokens
        assert there.completion_tokens == here.completion_tokens
        assert there.token_logprobs == pytest.approx(here.token_logprobs, abs=1e-3)
        assert there.logprob == pytest.approx(here.logprob, abs=1e-3)
    assert {path.finish_reason for [path] in served} >= {FinishReason.STOP}


def test_paths_can_be_drawn_again_together_and_alone(client):
    """Ten paths of a prompt, the same ten again, and each one alone."""
    requests = [
        Request(prompt=prompt, seeds=consecutive_seeds(10, 7, "draw", prompt)) for prompt in PROMPTS
    ]
    drawn = client.complete(requests, SAMPLED)
    assert all(path.error is None for paths in drawn for path in paths)
    # SGLang gives the completions of a request one seed, so each has a request of its own.
    opened = 10 if client.engine == "sglang" else 1
    assert [sum(path.opens_request for path in paths) for paths in drawn] == [opened] * len(PROMPTS)
    assert all(len({path.token_ids for path in paths}) > 1 for paths in drawn)
    again = client.complete(requests, SAMPLED)
    ids = [[path.token_ids for path in paths] for paths in drawn]
    assert [[path.token_ids for path in paths] for paths in again] == ids
    # One path per prompt, another one each time.
    alone = [Request(prompt=r.prompt, seeds=[r.seeds[i % 10]]) for i, r in enumerate(requests)]
    for i, [path] in enumerate(client.complete(alone, SAMPLED)):
        assert path.token_ids == ids[i][i % 10]


def test_log_probabilities_are_those_before_temperature(client, reference):
    """At temperature 0.7 and top-p 0.95, each equals that of a teacher-forced pass of the model."""
    requests = [Request(prompt=prompt, seeds=range(3)) for prompt in PROMPTS]
    for request, paths in zip(requests, client.complete(requests, SAMPLED), strict=True):
        prompt = reference.tokenizer.encode(request.prompt, add_special_tokens=False)
        for path in paths:
            with torch.inference_mode():
                logits = reference.model(torch.tensor([[*prompt, *path.token_ids]])).logits[0]
            steps = logits[len(prompt) - 1 : -1].float().log_softmax(-1)
            expected = [
                step[token].item() for step, token in zip(steps, path.token_ids, strict=True)
            ]
            assert path.token_logprobs == pytest.approx(expected, abs=1e-3)
            assert path.logprob == pytest.approx(sum(expected), abs=1e-3)


def test_frequencies_match_the_model(client, reference):
    """Over 2,000 seeds each first token's share is within four standard errors of its probability."""
    n = 2000
    [paths] = client.complete(
        [Request(prompt=PROMPTS[0], seeds=range(n))], Decoding(temperature=0.7, max_new_tokens=1)
    )
    prompt = reference.tokenizer.encode(PROMPTS[0], add_special_tokens=False)
    with torch.inference_mode():
        logits = reference.model(torch.tensor([prompt])).logits[0, -1]
    probs = (logits.double() / 0.7).softmax(-1).numpy()
    counts = np.bincount([path.token_ids[0] for path in paths], minlength=len(probs))
    errors = np.sqrt(probs * (1 - probs) / n)
    # The normal approximation does not hold for rare tokens.
    likely = probs > 0.005
    assert likely.sum() > 5
    assert (np.abs(counts / n - probs)[likely] < 4 * errors[likely]).all()
    assert counts[~likely].sum() / n == pytest.approx(probs[~likely].sum(), abs=0.03)


def test_a_prompt_that_is_too_long_is_a_status(client):
    """The context has 512 tokens; the error has the server's message."""
    [[path]] = client.complete([Request(prompt="1+" * 400, seeds=[1])], SAMPLED)
    assert path.finish_reason is FinishReason.ERROR
    assert path.error.startswith("status 400: ")
    assert "512" in path.error


def test_many_long_seeded_prompts(client):
    """640 seeded paths of prompts that fill several steps: chunked prefill crashed vLLM on a CPU."""
    requests = [Request(prompt=PROMPTS[i % 24] * 20, seeds=range(i, i + 10)) for i in range(64)]
    drawn = client.complete(requests, Decoding(temperature=1.0, max_new_tokens=2))
    assert {path.error for paths in drawn for path in paths} == {None}


def test_cached_tokens_of_a_repeated_prompt(client):
    """vLLM reports the cached tokens of a prompt's second request; the embedded server caches none."""
    request = Request(prompt="98,76,54=32\n" * 20, seeds=[1])
    cached = [client.complete([request], SAMPLED)[0][0].cached_tokens for _ in range(2)]
    assert cached[0] == 0
    assert (cached[1] > 0) is (client.engine == "vllm")
