"""A real server on a real port, with a tiny policy made by the bootstrap."""

import pathlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import httpx
import openai
import pytest
import torch
from prometheus_client.parser import text_string_to_metric_families
from transformers import AutoModelForCausalLM

from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.params.paths import BootstrapParams, CountdownParams
from pipeline_lib.problems.countdown import generate
from pipeline_lib.sampling.prompts import render
from pipeline_lib.sampling.worked import solution_rows
from pipeline_lib.train.bootstrap import make_base_policy
from tests.unit.engines.served_model import served

TEMPLATE = (
    "{% for message in messages %}{% if message.role == 'developer' %}"
    "{{ raise_exception('no developers here') }}{% endif %}"
    "<{{ message.role }}>{{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
Serving = Callable[..., AbstractContextManager[str]]


@pytest.fixture(scope="session")
def prompts() -> list[str]:
    """Twenty rendered Countdown problems."""
    params = CountdownParams(num_numbers=2, high=9, target_high=60)
    return [render(problem, None) for problem in generate(params, seed=4, count=20)]


@pytest.fixture(scope="session")
def policy(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A policy of one layer after three steps, without a chat template.

    Its weights are scaled up, so that greedy texts differ between prompts.
    """
    folder = tmp_path_factory.mktemp("models") / "policy"
    problems = generate(CountdownParams(num_numbers=2, high=9, target_high=60), seed=4, count=24)
    params = BootstrapParams(
        hidden_size=16, num_layers=1, num_heads=2, steps=3, batch_size=4, checkpoint_every=2
    )
    make_base_policy(solution_rows(problems, None), folder, params=params, seed=1, key="base")
    model = AutoModelForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 2:
                weight.mul_(40 if "embed" in name else 20)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def chat_policy(policy: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The same with a chat template."""
    folder = shutil.copytree(policy, tmp_path_factory.mktemp("models") / "chat")
    (folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def engine(policy: pathlib.Path) -> EmbeddedEngine:
    """The in-process engine that the servers are compared with."""
    return EmbeddedEngine.load(str(policy), batch_size=64)


@pytest.fixture(scope="session")
def serving() -> Serving:
    """``with serving(folder) as base_url``: a server in a thread, with `make_app`'s options."""

    return served


@pytest.fixture(scope="session")
def base_url(policy: pathlib.Path, serving: Serving) -> Iterator[str]:
    """A server of the policy, shared by tests that do not change it."""
    with serving(policy) as url:
        yield url


@pytest.fixture(scope="session")
def chat_url(chat_policy: pathlib.Path, serving: Serving) -> Iterator[str]:
    """A server of the policy with a chat template."""
    with serving(chat_policy) as url:
        yield url


@pytest.fixture(scope="session")
def client_of() -> Callable[[str], openai.OpenAI]:
    """Makes an OpenAI client without retries."""

    def make(url: str) -> openai.OpenAI:
        return openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=60)

    return make


@pytest.fixture(scope="session")
def client(base_url: str, client_of: Callable[[str], openai.OpenAI]) -> Iterator[openai.OpenAI]:
    """A client of the shared server."""
    with client_of(base_url) as made:
        yield made


@pytest.fixture(scope="session")
def chat_client(
    chat_url: str, client_of: Callable[[str], openai.OpenAI]
) -> Iterator[openai.OpenAI]:
    """A client of the server with a chat template."""
    with client_of(chat_url) as made:
        yield made


@pytest.fixture(scope="session")
def sample_of() -> Callable[[str, str], float]:
    """``sample_of(url, name)``: the sum of a metric over its labels, as Prometheus reads it."""

    def read(url: str, name: str) -> float:
        text = httpx.get(f"{url.removesuffix('/v1')}/metrics").raise_for_status().text
        samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
        return sum(sample.value for sample in samples if sample.name == name)

    return read
