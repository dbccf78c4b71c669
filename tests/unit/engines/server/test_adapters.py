"""LoRA adapters loaded and unloaded while the base is served."""

import pathlib
import shutil
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from pipeline_lib.engines.chat_model import Decoding, Request
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.train.weights.adapters import merge
from tests.unit.engines.server.random_adapters import random_adapter

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:peft")
MODEL = "models/policy"
GREEDY = {"temperature": 0, "max_tokens": 24}
DECODING = Decoding(temperature=0, max_new_tokens=24)


@pytest.fixture(scope="module")
def adapters(policy, tmp_path_factory) -> dict[str, pathlib.Path]:
    """Folders saved by PEFT; the third adapts the head, which is tied to the embeddings, and holds them, too."""
    root = tmp_path_factory.mktemp("adapters")
    targets = {"one": "all-linear", "two": "all-linear", "head": ["lm_head"]}
    return {
        name: random_adapter(policy, root / name, seed, target_modules=which)
        for seed, (name, which) in enumerate(targets.items(), 1)
    }


@pytest.fixture(scope="module")
def expected(policy, adapters, prompts, engine, tmp_path_factory) -> dict[str, list[str]]:
    """Greedy texts of the base, and of the base merged with each adapter."""
    root = tmp_path_factory.mktemp("merged")
    requests = [Request(prompt=prompt, seeds=[0]) for prompt in prompts]
    texts = {MODEL: [path.text for [path] in engine.complete(requests, DECODING)]}
    for name, folder in adapters.items():
        base = AutoModelForCausalLM.from_pretrained(policy, dtype=torch.float32)
        shutil.copytree(policy, root / name)
        merge(PeftModel.from_pretrained(base, folder)).save_pretrained(root / name)
        whole = EmbeddedEngine.load(str(root / name), batch_size=64)
        texts[name] = [path.text for [path] in whole.complete(requests, DECODING)]
    assert len({tuple(one) for one in texts.values()}) == 4
    return texts


@pytest.fixture
def url(policy, serving):
    """A separate server, since the tests change its models."""
    with serving(policy) as base_url:
        yield base_url


def _load(url: str, name: str, folder: pathlib.Path, **more: object) -> httpx.Response:
    body = {"lora_name": name, "lora_path": str(folder), **more}
    return httpx.post(f"{url}/load_lora_adapter", json=body)


def _unload(url: str, name: str) -> httpx.Response:
    return httpx.post(f"{url}/unload_lora_adapter", json={"lora_name": name})


def test_adapters_equal_the_merged_models(url, adapters, expected, prompts, client_of):
    """Concurrent requests to the base and three adapters equal those to four separate models."""
    for name, folder in adapters.items():
        assert _load(url, name, folder).status_code == 200
    asked = [(name, i) for i in range(len(prompts)) for name in expected]
    with client_of(url) as client, ThreadPoolExecutor(len(asked)) as pool:
        answers = pool.map(
            lambda one: client.completions.create(model=one[0], prompt=prompts[one[1]], **GREEDY),
            asked,
        )
        for (name, i), answer in zip(asked, answers, strict=True):
            assert answer.choices[0].text == expected[name][i]
            assert answer.model == name
        listed = {model.id: model for model in client.models.list().data}
    assert set(listed) == {MODEL, *adapters}
    assert (listed["one"].parent, listed["one"].root) == (MODEL, str(adapters["one"]))


def test_an_unloaded_adapter_is_not_served(url, adapters, expected, texts):
    """404 under its name; base and other adapter are unchanged; the name can be used again."""
    for name, folder in adapters.items():
        _load(url, name, folder)
    assert _unload(url, "one").status_code == 200
    with pytest.raises(openai.NotFoundError):
        texts("one")
    assert (texts(MODEL), texts("two")) == (expected[MODEL], expected["two"])
    assert _unload(url, "two").status_code == 200
    assert texts(MODEL) == expected[MODEL]
    assert _load(url, "one", adapters["two"]).status_code == 200
    assert (texts(MODEL), texts("one")) == (expected[MODEL], expected["two"])


def test_a_replaced_adapter_finishes_its_requests(url, adapters, client_of):
    """A stream that began under the old weights ends under them; new requests use the new ones."""
    asked = {"prompt": "1", "max_tokens": 400, "temperature": 0}
    with client_of(url) as client:
        for name, folder in adapters.items():
            _load(url, name, folder)
        old, new = (
            client.completions.create(model=name, **asked).choices[0].text
            for name in ("one", "two")
        )
        with client.completions.create(model="one", stream=True, **asked) as stream:
            begun = next(stream).choices[0].text
            assert _load(url, "one", adapters["two"], load_inplace=True).status_code == 200
            assert client.completions.create(model="one", **asked).choices[0].text == new
            assert begun + "".join(chunk.choices[0].text for chunk in stream) == old
    assert old != new


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lora_name": MODEL}, "served already"),
        ({"lora_name": "one"}, "set load_inplace to replace"),
        ({"lora_path": "nowhere"}, "it has no adapter_config.json"),
        ({"lora_path": ""}, "at least 1 character"),
        ({"lora_rank": 4}, "not permitted"),
    ],
)
def test_invalid_loads_are_400(url, adapters, change, words):
    """Names in use, folders without an adapter, unknown fields."""
    _load(url, "one", adapters["one"])
    body = {"lora_name": "new", "lora_path": str(adapters["two"]), **change}
    answer = httpx.post(f"{url}/load_lora_adapter", json=body)
    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]
    assert len(httpx.get(f"{url}/models").json()["data"]) == 2


@pytest.fixture
def texts(url, prompts, client_of):
    """``texts(name)``: the server's greedy texts under that name."""

    def of(name: str) -> list[str]:
        with client_of(url) as client:
            answer = client.completions.create(model=name, prompt=prompts, **GREEDY)
        return [choice.text for choice in answer.choices]

    return of


def test_unloading_an_unknown_adapter_is_404(url):
    """As at vLLM."""
    assert _unload(url, "one").status_code == 404
