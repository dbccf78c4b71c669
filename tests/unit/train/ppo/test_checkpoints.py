"""Checkpoints of PPO contain the critic; a published policy does not."""

import pathlib

import pytest
import torch
from transformers import AutoModelForCausalLM

from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.train.online.live_rollouts import LiveRollouts
from pipeline_lib.train.phases import TrainContext, run_phase
from pipeline_lib.train.ppo.value_head import FILE_NAME, ValueHead
from tests.unit.train.ppo.conftest import params_of, phase_of


def share_of_digits(*, completions, **_) -> list[float]:
    """A reward that differs between paths of the tiny policy."""
    return [sum(letter.isdigit() for letter in text) / max(1, len(text)) for text in completions]


@pytest.mark.parametrize("lora", [False, True], ids=["full", "lora"])
def test_only_checkpoints_contain_the_critic(base: pathlib.Path, tmp_path: pathlib.Path, lora):
    """Its saved weights are trained; the policy's folder is a plain one that transformers loads."""
    phase = phase_of(
        [{"prompt": "2,3=5\n", "problem_id": "p"}],
        reward=share_of_digits,
        source=LiveRollouts(decoding=Decoding(max_new_tokens=6), seed=2),
        params=params_of(group_size=8, lora=lora),
        checkpoint_every=2,
    )
    context = TrainContext(work=tmp_path, key="key", seed=1, threads=1)
    result = run_phase(phase, str(base), context)
    head = ValueHead(16)
    head.load(tmp_path / "ppo" / "checkpoint-2")
    assert head.out.weight.abs().max() > 0
    assert not (result / FILE_NAME).exists()
    policy = AutoModelForCausalLM.from_pretrained(result)
    start = AutoModelForCausalLM.from_pretrained(base)
    names = policy.state_dict().keys()
    assert names == start.state_dict().keys()
    assert not all(torch.equal(policy.state_dict()[n], start.state_dict()[n]) for n in names)
