"""Importance ratios of paths that an external engine drew."""

import math
import pathlib
from typing import Any

import pytest
import torch

from pipeline_lib.determinism import deterministic
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.params.train import Method, TrainParams
from pipeline_lib.train.library_logs import silence_libraries
from pipeline_lib.train.online import grpo
from pipeline_lib.train.online.rewards import make_verified_reward, verified_alone
from pipeline_lib.train.trainer_settings import TrainerSettings
from pipeline_lib.train.weights.policies import load_policy
from pipeline_lib.verify.dispatch import open_verifier

PARAMS = TrainParams(method=Method.GRPO, group_size=2)
PROMPT, RIGHT, WRONG = "2,3=5\n", "3+2=5", "3*2=6"


def unlikelier_by(factor: float):
    """Draws a right and a wrong path with log-probabilities below those of the policy."""

    def draw(prompts: Any, trainer: Any) -> dict[str, list[Any]]:
        tokenizer = trainer.processing_class
        prompt = tokenizer.encode(PROMPT, add_special_tokens=False)
        paths = [
            [*tokenizer.encode(text, add_special_tokens=False), tokenizer.eos_token_id]
            for text in (RIGHT, WRONG)
        ]
        ids = torch.tensor([prompt + path for path in paths])
        with torch.no_grad():
            logits = trainer.model(input_ids=ids).logits[:, len(prompt) - 1 : -1]
        own = logits.log_softmax(-1).gather(-1, ids[:, len(prompt) :, None])[..., 0]
        return {
            "prompt_ids": [prompt] * 2,
            "completion_ids": paths,
            "logprobs": (own - math.log(factor)).tolist(),
            "failed": [False] * 2,
        }

    return draw


@pytest.mark.parametrize(("elsewhere", "expected"), [(True, 0.055), (False, 0.0)])
def test_the_ratio_is_policy_over_engine(elsewhere, expected, base: pathlib.Path, tmp_path):
    """Rewards 1 and 0 have advantages 1/2 and -1/2; both paths have the same length.

    An engine whose probability of each token is lower by 1.5 gives the ratio 1.5: clipped to 1.28 for the right
    path, unclipped for the wrong one, so the loss is -(1.28 - 1.5) / 2 / 2. Drawn by the policy itself the
    ratio is 1, and both cancel.
    """
    settings = {
        "output_dir": str(tmp_path),
        "max_steps": 1,
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 1,
        "seed": 1,
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "report_to": "none",
    }
    row = {"prompt": PROMPT, "problem_id": "p"}
    with (
        silence_libraries(),
        deterministic(threads=1, seed=0),
        open_verifier(VerifyParams()) as verifier,
    ):
        reward = make_verified_reward({"p": CountdownGold(numbers=(2, 3), target=5)}, verifier)
        make_trainer = grpo.trainer_factory(
            [row],
            # The engine's policy has adapters; this one has none, which the params would refuse.
            PARAMS.model_copy(update={"rollouts": "endpoint" if elsewhere else "in_process"}),
            rewards=verified_alone(reward, verifier),
            make_rollouts=lambda _source: unlikelier_by(1.5),
            max_new_tokens=8,
        )
        trainer: Any = make_trainer(load_policy(str(base)), TrainerSettings(settings))
        trainer.current_gradient_accumulation_steps = 1
        inputs = trainer._generate_and_score_completions([dict(row), dict(row)])
        loss = trainer.compute_loss(trainer.model.train(), inputs)
    assert loss.item() == pytest.approx(expected, abs=1e-5)
