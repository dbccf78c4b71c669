"""Adapters saved by PEFT, with random weights."""

import pathlib

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM


def random_adapter(
    policy: pathlib.Path, folder: pathlib.Path, seed: int, **changes: object
) -> pathlib.Path:
    """Like a trained adapter: both matrices are far from zero."""
    fields = {
        "r": 4,
        "lora_alpha": 8,
        "target_modules": "all-linear",
        "init_lora_weights": False,
        "task_type": "CAUSAL_LM",
    }
    model = AutoModelForCausalLM.from_pretrained(policy, dtype=torch.float32)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        adapted = get_peft_model(model, LoraConfig(**fields | changes))
        for name, weight in adapted.named_parameters():
            if "lora_" in name:
                torch.nn.init.normal_(weight, std=0.5)
    adapted.save_pretrained(folder)
    return folder
