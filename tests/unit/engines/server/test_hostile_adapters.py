"""Hostile adapter loads: for any request or folder the engine survives and the base is unchanged."""

import json
import pathlib
import shutil
from collections.abc import Callable

import httpx
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.engines.embedded.multi_lora import MultiLoraModel
from pipeline_lib.engines.server import routes
from pipeline_lib.errors import BadInputError
from tests.unit.engines.server import bad_adapters
from tests.unit.engines.server.random_adapters import random_adapter

MODEL = "models/policy"


@pytest.fixture(scope="module")
def good(policy, tmp_path_factory) -> pathlib.Path:
    return random_adapter(policy, tmp_path_factory.mktemp("adapters") / "good", 1)


@pytest.fixture(scope="module")
def url(policy, serving):
    with serving(policy, batch_size=8) as base_url:
        yield base_url


@pytest.fixture(scope="module")
def text(url) -> Callable[..., str]:
    """``text(model)``: the server's greedy text under that name."""

    def ask(model: str = MODEL, **more: object) -> str:
        body = {"model": model, "prompt": "1,2=3", "temperature": 0, "max_tokens": 16, **more}
        answer = httpx.post(f"{url}/completions", json=body, timeout=60).raise_for_status()
        return str(answer.json()["choices"][0]["text"])

    return ask


def _load(url: str, folder: object, name: str = "bad") -> httpx.Response:
    body = {"lora_name": name, "lora_path": str(folder)}
    return httpx.post(f"{url}/load_lora_adapter", json=body, timeout=60)


def _unload(url: str, name: str) -> None:
    httpx.post(f"{url}/unload_lora_adapter", json={"lora_name": name}).raise_for_status()


def test_every_damaged_folder_is_400(url, good, text, tmp_path):
    """For each kind of damage: 400 in one line, and the base's text is unchanged."""
    before = text()
    for what, folder in bad_adapters.refused_folders(good, tmp_path).items():
        answer = _load(url, folder)
        assert (what, answer.status_code) == (what, 400)
        assert "\n" not in answer.json()["error"]["message"]
        assert text() == before, what
    assert _load(url, good, "good").status_code == 200
    assert text("good") != before
    _unload(url, "good")


@pytest.mark.parametrize("path", bad_adapters.PATHS, ids=range(len(bad_adapters.PATHS)))
def test_every_bad_path_is_400(url, text, path):
    """Devices, invalid names, URLs; nothing is fetched."""
    assert _load(url, path).status_code == 400
    assert text()


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(field=st.sampled_from(bad_adapters.FIELDS), value=st.sampled_from(bad_adapters.WRONG_VALUES))
def test_a_field_of_another_type_is_400_or_harmless(
    url, good, text, tmp_path_factory, field, value
):
    """Each field with each wrong value is refused, or loaded if it has no effect; the engine survives."""
    folder = tmp_path_factory.mktemp("changed") / "adapter"
    answer = _load(url, bad_adapters.damaged_config(good, folder, **{field: value}))
    assert answer.status_code in {200, 400}
    if answer.status_code == 200:
        _unload(url, "bad")
    assert text()


@pytest.mark.parametrize(
    "changes",
    [
        {"target_modules": r".*\.(q|k|v|o|gate|up|down)_proj"},
        {"target_modules": bad_adapters.SLOW},
        {"target_modules": ["nothing_of_this_name", 1, "("]},
        {"exclude_modules": ["lm_head"]},
        {"layers_to_transform": [0], "layers_pattern": "layers"},
        {"r": 64, "rank_pattern": dict.fromkeys(("q_proj", "k_proj"), 4)},
    ],
    ids=["rule", "slow rule", "others", "exclusion", "layers", "ranks"],
)
def test_a_target_rule_is_replaced_by_the_modules_with_weights(url, good, text, tmp_path, changes):
    """The modules that a rule selected are in the weights file: the texts are the same."""
    folder = bad_adapters.damaged_config(good, tmp_path / "ruled", **changes)
    for name, source in (("good", good), ("ruled", folder)):
        assert _load(url, source, name).status_code == 200
    assert text("ruled") == text("good")
    for name in ("good", "ruled"):
        _unload(url, name)


def test_overflowing_weights_fail_only_their_own_requests(url, good, text, tmp_path):
    """Finite weights with infinite products: 500 under that name, sampled or greedy; the base works."""
    folder = bad_adapters.damaged_config(good, tmp_path / "large")
    tensors = load_file(folder / bad_adapters.WEIGHTS)
    save_file(
        {name: torch.full_like(tensor, 1e38) for name, tensor in tensors.items()},
        folder / bad_adapters.WEIGHTS,
    )
    before = text()
    assert _load(url, folder, "large").status_code == 200
    for decoding in ({"temperature": 0}, {"top_p": 0.9}, {"logprobs": 1}, {"stream": True}):
        body = {"model": "large", "prompt": "1,2=3", "max_tokens": 4, **decoding}
        answer = httpx.post(f"{url}/completions", json=body, timeout=60)
        assert "not finite" in answer.text
        assert answer.status_code == (200 if "stream" in decoding else 500)
    assert text() == before
    _unload(url, "large")


def test_the_number_of_adapters_is_limited(url, good, text, monkeypatch):
    """Each loaded adapter takes memory; one more than the limit is 400."""
    monkeypatch.setattr(routes, "MAX_ADAPTERS", 2)
    assert [_load(url, good, name).status_code for name in ("a", "b", "c")] == [200, 200, 400]
    for name in ("a", "b"):
        _unload(url, name)
    assert text()


@pytest.mark.parametrize("name", ["", "a\x1b[2J", "a\nb", "\u202eb", "x" * 300])
def test_a_name_with_control_characters_is_400(url, good, name):
    """Names are listed, logged and printed."""
    assert _load(url, good, name).status_code == 400


def test_a_misfit_leaves_the_modules_unchanged(policy, good, tmp_path):
    """Modules and their shapes are the same before and after ten refusals, with a good adapter and without."""
    engine = EmbeddedEngine.load(str(policy), batch_size=1)
    model = MultiLoraModel(base=engine)
    folder = shutil.copytree(good, tmp_path / "misfit")
    bad_adapters.FILES["a missing weight"](folder)

    def shapes() -> dict[str, torch.Size]:
        return {name: tensor.shape for name, tensor in engine.model.state_dict().items()}

    plain = shapes()
    key = model.attach(model.read(good), source=good)
    adapted = shapes()
    for _ in range(10):
        with pytest.raises(BadInputError, match="do not match the model"):
            model.attach(model.read(folder), source=folder)
    assert shapes() == adapted
    model.detach(key)
    for _ in range(10):
        with pytest.raises(BadInputError, match="do not match the model"):
            model.attach(model.read(folder), source=folder)
    assert shapes() == plain
    assert not hasattr(engine.model, "peft_config")


def test_a_config_cannot_import_code(policy, good, tmp_path):
    """A module named in the config is not imported: this one would raise."""
    (tmp_path / "hostile_module.py").write_text("raise SystemExit('imported')")
    folder = bad_adapters.damaged_config(
        good,
        tmp_path / "adapter",
        megatron_config={"a": 1},
        megatron_core="hostile_module",
        auto_mapping={"base_model_class": "x", "parent_library": "hostile_module"},
    )
    model = MultiLoraModel(base=EmbeddedEngine.load(str(policy), batch_size=1))
    with pytest.raises(BadInputError, match="megatron_config"):
        model.read(folder)
    assert json.loads((folder / bad_adapters.CONFIG).read_text())["megatron_core"]
