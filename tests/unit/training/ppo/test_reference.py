"""The reference stays what the policy was, however the policy moves."""

import pathlib

import pytest
import torch
from peft import get_peft_model

from pipeline_lib.params.train import LoraParams
from pipeline_lib.training.adapters import lora_config
from pipeline_lib.training.policies import load_policy
from pipeline_lib.training.ppo.path_batch import TokenPath, collated
from pipeline_lib.training.ppo.reference import Reference
from pipeline_lib.training.ppo.token_scores import logprobs


@pytest.mark.parametrize("enabled", [False, True], ids=["full", "lora"])
def test_it_is_the_policy_at_the_start(base: pathlib.Path, enabled: bool):
    """All weights that are trained are moved: the policy says something else then, the reference not."""
    lora = LoraParams(enabled=enabled, rank=4)
    model = load_policy(str(base)).model.eval()
    device = torch.device("cpu")
    paths = [TokenPath(prompt_ids=[5, 6], completion_ids=[7, 8, 1], reward=0.0)]
    batch = collated(paths, pad_id=0, device=device)
    start_BT = logprobs(model, batch)
    reference = Reference.of(model, lora, device)
    policy = get_peft_model(model, lora_config(lora)).eval() if enabled else model
    with torch.no_grad():
        for weight in policy.parameters():
            if weight.requires_grad:
                weight.add_(1)
    with reference.opened(policy) as opened:
        torch.testing.assert_close(logprobs(opened, batch), start_BT)
    assert (logprobs(policy, batch) - start_BT).abs().max() > 0.05
