"""Models for tests of precision: stored in bfloat16, and the same values stored in float32."""

import pathlib
import shutil
from collections.abc import Sequence

import torch
from transformers import AutoModelForCausalLM

from pipeline_lib.params.train import LoraParams
from pipeline_lib.train.offline import sft
from pipeline_lib.train.phases import Row
from pipeline_lib.train.trainer_settings import IGNORED
from pipeline_lib.train.weights.policies import load_policy


def stored_in(dtype: torch.dtype, base: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """A copy of ``base`` whose weights are rounded to bfloat16, stored in ``dtype``."""
    shutil.copytree(base, folder)
    model = AutoModelForCausalLM.from_pretrained(base).bfloat16().to(dtype)
    model.save_pretrained(folder)
    return folder


def held_out_loss(folder: pathlib.Path, rows: Sequence[Row]) -> float:
    """Mean loss of a completion's token, in nats, of the policy as it is loaded for training."""
    policy = load_policy(str(folder), lora=LoraParams(enabled=False))
    total, count = 0.0, 0
    with torch.inference_mode():
        for row in rows:
            tokens = sft.tokenize(row, policy.tokenizer)
            logits = policy.model(input_ids=torch.tensor([tokens["input_ids"]])).logits[0, :-1]
            labels = torch.tensor(tokens["labels"][1:])
            losses = torch.nn.functional.cross_entropy(
                logits.double(), labels, ignore_index=IGNORED, reduction="sum"
            )
            total, count = total + float(losses), count + int((labels != IGNORED).sum())
    return total / count
