"""Adapters: saved beside the policy, merged into it, refused for another base."""

import importlib.util
import pathlib
import shutil
from collections.abc import Sequence

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from pipeline_lib.engines.identity import model_identity
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.train import LoraParams, Method
from pipeline_lib.store import manifests
from pipeline_lib.train.methods import train_policy
from pipeline_lib.train.token_budget import weights_text
from pipeline_lib.train.weights import adapters
from pipeline_lib.train.weights.export import export_model
from pipeline_lib.train.weights.models import make_quantization_config

LORA = {"lora": {"enabled": True, "rank": 4}}
TOKENS = torch.tensor([[5, 6, 7, 8, 9, 10, 11, 12]])


def logits(model) -> torch.Tensor:
    with torch.inference_mode():
        return model.eval()(input_ids=TOKENS).logits


def logits_of(folder: pathlib.Path | str) -> torch.Tensor:
    return logits(AutoModelForCausalLM.from_pretrained(folder))


@pytest.fixture
def tuned(request_for, tmp_path: pathlib.Path) -> pathlib.Path:
    """A policy after six supervised steps of LoRA."""
    train_policy(request_for(Method.SFT, tmp_path / "tuned", train=LORA))
    return tmp_path / "tuned"


def test_merged_weights_give_the_logits_of_base_and_adapter(base, tuned):
    """Unmerged in PEFT, merged in the policy's folder: the same to 1e-5, and not those of the base."""
    with_adapter = PeftModel.from_pretrained(
        AutoModelForCausalLM.from_pretrained(base), tuned / "adapters" / "1-sft"
    )
    torch.testing.assert_close(logits_of(tuned), logits(with_adapter), atol=1e-5, rtol=0)
    assert (logits_of(tuned) - logits_of(base)).abs().max() > 1e-2


def test_an_adapter_is_sealed_and_names_its_base_by_digest(base, tuned):
    """Its files are in its own manifest and in the policy's; no folder of this machine is in them."""
    folder = tuned / "adapters" / "1-sft"
    manifest = adapters.check(folder)
    assert manifest is not None
    assert manifest.key == model_identity(str(base))
    listed = manifests.read_manifest(tuned).files
    for name, entry in manifest.files.items():
        assert listed[f"adapters/1-sft/{name}"] == entry
    assert set(manifest.files) == {"adapter_config.json", "adapter_model.safetensors"}
    assert str(base) not in (folder / "adapter_config.json").read_text("utf-8")


def test_the_policy_is_its_base_with_all_adapters_in_order(request_for, half_solved, tmp_path):
    """A warm start and GRPO leave two; exported on the base they give the policy's logits."""
    train = LORA | {"entropy_coef": 0, "lr": 1e-2}
    train_policy(request_for(Method.GRPO, tmp_path / "policy", train=train, **half_solved))
    on_top = sorted((tmp_path / "policy" / "adapters").iterdir())
    assert [folder.name for folder in on_top] == ["1-warm-start", "2-grpo"]
    export_model(half_solved["base"], tmp_path / "out", on_top=on_top)
    torch.testing.assert_close(
        logits_of(tmp_path / "out"), logits_of(tmp_path / "policy"), atol=1e-4, rtol=0
    )
    assert (logits_of(tmp_path / "out") - logits_of(half_solved["base"])).abs().max() > 1e-2
    with pytest.raises(BadInputError, match=r"2-grpo: trained on a base with digest .* in order"):
        export_model(half_solved["base"], tmp_path / "half", on_top=on_top[1:])
    assert not (tmp_path / "half").exists()


def test_full_fine_tuning_leaves_no_adapter(request_for, tmp_path):
    """The policy's folder has no adapter; all weights were trained."""
    train_policy(request_for(Method.SFT, tmp_path / "full"))
    assert not (tmp_path / "full" / "adapters").exists()
    counts = manifests.read_manifest(tmp_path / "full").counts
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "full")
    assert counts["trained_weights"] == counts["all_weights"] == model.num_parameters()
    assert weights_text(counts).endswith(f"of {model.num_parameters():,} (100 %)")


def test_the_share_of_trained_weights_is_recorded(base, tuned):
    """The weights of the adapter, beside all, which are the base and the adapter."""
    counts = manifests.read_manifest(tuned).counts
    adapter = load_file(tuned / "adapters" / "1-sft" / "adapter_model.safetensors")
    assert counts["trained_weights"] == sum(weight.numel() for weight in adapter.values())
    model = AutoModelForCausalLM.from_pretrained(base)
    assert counts["all_weights"] == model.num_parameters() + counts["trained_weights"]


def test_a_policy_of_an_older_version_has_no_share():
    assert weights_text({"trained_tokens": 1}) == ""


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", None])
def test_an_export_is_a_plain_folder_in_the_requested_precision(dtype, tuned, tmp_path):
    """Config, weights and tokenizer load by the auto classes; the source's card is copied."""
    (tuned / "README.md").write_text("# card")
    done = export_model(str(tuned), tmp_path / "out", dtype=dtype)
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype="auto")
    assert done.dtype == (dtype or "float32") == str(model.dtype).removeprefix("torch.")
    assert done.num_weights == sum(weight.numel() for weight in model.parameters())
    assert (tmp_path / "out" / "README.md").read_text() == "# card"
    assert (tmp_path / "out" / "tokenizer.json").is_file()
    assert not (tmp_path / "out" / "adapters").exists()


def refused(match: str, source: object, output: pathlib.Path, on_top: Sequence[pathlib.Path] = ()):
    """Exports, and expects one line that matches."""
    with pytest.raises(BadInputError, match=match) as refusal:
        export_model(str(source), output, on_top=on_top)
    assert "\n" not in str(refusal.value)


def test_invalid_combinations_are_refused(base, half_right, tuned, tmp_path):
    """No adapter, a damaged one, another base, other shapes, an existing output folder."""
    adapter = tuned / "adapters" / "1-sft"
    out = tmp_path / "out"
    refused("no adapter_config.json", base, out, [tuned])
    refused("1-sft: trained on a base with digest", half_right, out, [adapter])
    foreign = tmp_path / "foreign"
    shutil.copytree(adapter, foreign)
    (foreign / "manifest.json").unlink()
    refused("foreign: does not fit this model", half_right, out, [foreign])
    export_model(str(base), out, on_top=[foreign])
    refused("exists; remove it", base, out)
    (adapter / "adapter_model.safetensors").write_bytes(b"")
    refused("sha256 differs", base, tmp_path / "new", [adapter])
    refused("nowhere.*Hugging Face folder", tmp_path / "nowhere", tmp_path / "new")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
@pytest.mark.parametrize("bits", ["8bit", "4bit"])
def test_a_quantized_base_without_cuda_is_refused_first(bits, request_for, tmp_path):
    """One line with the remedy; nothing is written."""
    lora = {"enabled": True, "quantize": bits}
    request = request_for(Method.SFT, tmp_path / "out", train={"lora": lora})
    with pytest.raises(
        BadInputError, match=f"={bits}: no CUDA device.*set train.lora.quantize=none$"
    ):
        train_policy(request)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("bits", ["8bit", "4bit"])
def test_a_quantized_base_needs_adapters(bits):
    """It cannot be trained itself."""
    with pytest.raises(ValueError, match=rf"quantize={bits}.*enabled=true"):
        LoraParams(quantize=bits)


@pytest.mark.parametrize("bits", ["8bit", "4bit"])
def test_what_transformers_is_asked_for(bits, monkeypatch):
    """Its own config of bitsandbytes, as on a machine with both."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: object())
    config = make_quantization_config(bits)
    assert config.quantization_method() == {"8bit": "llm_int8", "4bit": "nf4"}[bits]


@pytest.mark.gpu
@pytest.mark.parametrize("bits", ["8bit", "4bit"])
@pytest.mark.parametrize("method", [Method.SFT, Method.DPO, Method.GRPO])
def test_a_quantized_base_trains_an_adapter_for_the_base_in_full(
    method, bits, half_solved, request_for, tmp_path
):
    """On CUDA: the policy is its full-precision base with the adapters merged in."""
    pytest.importorskip("bitsandbytes")
    lora = {"enabled": True, "rank": 4, "quantize": bits}
    train = {"lora": lora, "entropy_coef": 0, "lr": 1e-2}
    train_policy(request_for(method, tmp_path / "policy", train=train, **half_solved))
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "policy", dtype="auto")
    assert model.dtype == torch.float32
    assert not getattr(model, f"is_loaded_in_{bits}", False)
    on_top = sorted((tmp_path / "policy" / "adapters").iterdir())
    export_model(half_solved["base"], tmp_path / "out", on_top=on_top)
    torch.testing.assert_close(logits_of(tmp_path / "out"), logits_of(tmp_path / "policy"))
