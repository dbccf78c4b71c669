"""Engines to run: a small server in a second environment, and a model for real ones."""

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from pipeline_lib.params.serve import ServeParams
from pipeline_lib.train.bootstrap import make_tokenizer
from tests.unit.engines.launch.small_environment import small_environment


@pytest.fixture
def small(tmp_path: pathlib.Path) -> Callable[..., ServeParams]:
    """Params of an engine that starts in a tenth of a second; options make it fail."""
    environment = small_environment(tmp_path / "environment")

    def params(*options: str, **changes: Any) -> ServeParams:
        fields = {
            "engine": "vllm",
            "port": 18300,
            # So long that a slow machine is not taken for a hang or a failed start.
            "hang_timeout_s": 120.0,
            "start_timeout_s": 120.0,
        } | changes
        return ServeParams(environment=str(environment), options=options, **fields)

    return params


@pytest.fixture
def model(tmp_path: pathlib.Path) -> str:
    """A folder with an identity; the small server does not read it."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}", encoding="utf-8")
    return str(folder)


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A random Llama with the project's tokenizer, far from uniform.

    vLLM's attention on a CPU needs heads of a multiple of 32 channels.
    """
    folder = tmp_path_factory.mktemp("llama")
    tokenizer = make_tokenizer(["12,5,3=51\n", "12+5=17\n17*3=51"])
    tokenizer.save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=0.3,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    with torch.random.fork_rng():
        torch.manual_seed(3)
        LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def adapters(llama: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> list[pathlib.Path]:
    """Two LoRA adapters of rank 8 on all linear layers, with random weights in both factors."""
    folders = []
    for seed in (1, 2):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            config = LoraConfig(
                r=8, lora_alpha=16, target_modules="all-linear", init_lora_weights=False
            )
            model = get_peft_model(LlamaForCausalLM.from_pretrained(llama), config)
        folders.append(tmp_path_factory.mktemp(f"adapter-{seed}"))
        model.save_pretrained(folders[-1])
    return folders


@pytest.fixture(scope="session")
def greedy(llama: pathlib.Path) -> Callable[..., list[list[int]]]:
    """Greedy tokens of transformers in float32, with an adapter merged into the weights."""
    tokenizer = AutoTokenizer.from_pretrained(llama)

    def complete(
        prompts: list[str], adapter: pathlib.Path | None, *, tokens: int
    ) -> list[list[int]]:
        model = LlamaForCausalLM.from_pretrained(llama)
        if adapter is not None:
            model = PeftModel.from_pretrained(model, adapter).merge_and_unload()
        drawn = []
        for prompt in prompts:
            ids = torch.tensor([tokenizer.encode(prompt, add_special_tokens=False)])
            whole = model.generate(
                ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=tokens
            )
            drawn.append(whole[0, ids.shape[1] :].tolist())
        return drawn

    return complete
