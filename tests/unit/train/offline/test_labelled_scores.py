"""Scoring labelled columns only gives the loss, gradient and metrics of TRL's SFT."""

import math
import pathlib
from typing import Any

import pytest
import torch
from datasets import Dataset
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer

from pipeline_lib.determinism import deterministic
from pipeline_lib.params.train import LoraParams
from pipeline_lib.train.offline import sft
from pipeline_lib.train.offline.sft import LabelledHead, score_labels
from pipeline_lib.train.trainer_settings import IGNORED, TrainerSettings, silence_libraries
from pipeline_lib.train.weights.adapters import make_lora_config
from pipeline_lib.train.weights.policies import Policy, load_policy

SETTINGS = {
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "report_to": "none",
    "max_steps": 1,
    "per_device_train_batch_size": 4,
    "gradient_accumulation_steps": 1,
    "seed": 1,
}
ROWS = [
    {"prompt": "2,3=5\n", "completion": "3+2=5"},
    {"prompt": "2,3,4=20\n", "completion": "2+3=5\n5*4=20"},
    {"prompt": "9=9\n", "completion": ""},
    {"prompt": "1,8=8\n", "completion": "1*8=8"},
]


def plain_trainer(policy: Policy, settings: dict[str, Any], lora: LoraParams) -> SFTTrainer:
    rows = [sft.tokenize(row, policy.tokenizer) for row in ROWS]
    return SFTTrainer(
        model=policy.model,
        args=SFTConfig(**settings, dataset_kwargs={"skip_prepare_dataset": True}),
        train_dataset=Dataset.from_list(rows),
        processing_class=policy.tokenizer,
        peft_config=make_lora_config(lora),
    )


def labelled_trainer(policy: Policy, settings: dict[str, Any], lora: LoraParams) -> SFTTrainer:
    return sft.trainer_factory(ROWS, lora=lora)(policy, TrainerSettings(settings))


def outcome(trainer: Any, policy: Policy) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Loss and metrics of all rows at once, and the gradient of every weight."""
    batch = trainer.data_collator([sft.tokenize(row, policy.tokenizer) for row in ROWS])
    loss = trainer.compute_loss(trainer.model.train(), batch)
    loss.backward()
    grads = {
        name: weight.grad
        for name, weight in trainer.model.named_parameters()
        if weight.grad is not None
    }
    figures = {name: values[-1] for name, values in trainer._metrics["train"].items()}
    return {"loss": loss.item(), **figures}, grads


@pytest.mark.parametrize("lora", [False, True], ids=["full", "lora"])
def test_loss_gradient_and_metrics_equal_those_of_the_fused_head(
    lora, base: pathlib.Path, tmp_path
):
    """Four rows of different lengths; one has the end token as its only label."""
    params = LoraParams(enabled=lora, rank=4)
    found = []
    for make in (plain_trainer, labelled_trainer):
        policy = load_policy(str(base))
        settings = SETTINGS | {"output_dir": str(tmp_path)}
        with silence_libraries(), deterministic(threads=1, seed=3):
            found.append(outcome(make(policy, settings, params), policy))
    (plain, plain_grads), (labelled, grads) = found
    assert labelled == pytest.approx(plain, rel=1e-5)
    assert any(grad.abs().max() > 1e-3 for grad in plain_grads.values())
    assert grads.keys() == plain_grads.keys()
    for name, grad in plain_grads.items():
        torch.testing.assert_close(grads[name], grad, rtol=1e-4, atol=1e-6)


def test_scores_by_hand():
    """Logits 0 and ln 3: probabilities 1/4 and 3/4, entropy ln 4 - 3/4 ln 3; the second is ignored."""
    logits = torch.tensor([[[0.0, math.log(3)], [0.0, 0.0]]])
    found = score_labels(logits, torch.tensor([[1, IGNORED]]))
    assert found.log_probs.tolist() == [[pytest.approx(math.log(3 / 4)), 0]]
    assert found.entropy.tolist() == [[pytest.approx(math.log(4) - 0.75 * math.log(3)), 0]]
    assert found.is_top1.tolist() == [[True, False]]
    assert found.label_mask.tolist() == [[True, False]]


def test_logits_begin_where_labels_do(base: pathlib.Path):
    """Of 9 columns the last 4 are labelled: the 5 from the one before them have logits."""
    asked = []

    class Model:
        def __call__(self, **inputs: Any) -> Any:
            asked.append(inputs["logits_to_keep"])
            return load_policy(str(base)).model(**inputs)

    labels = torch.full((2, 9), IGNORED)
    labels[0, 5:], labels[1, 7:] = 7, 8
    found = LabelledHead(model=Model())(
        fused_lm_head=True, labels=labels, input_ids=torch.arange(18).view(2, 9)
    )
    assert asked == [5]
    assert found.label_mask.sum(1).tolist() == [4, 2]
