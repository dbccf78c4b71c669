"""Passes without padding give TRL's loss, gradient and metrics."""

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from datasets import Dataset
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from pipeline_lib.determinism import deterministic
from pipeline_lib.params.train import LoraParams
from pipeline_lib.train.online.trl_internals import UnpaddedLogprobs
from pipeline_lib.train.online.unpadded_logprobs import plan_passes
from pipeline_lib.train.trainer_settings import silence_libraries
from pipeline_lib.train.weights.adapters import make_lora_config
from pipeline_lib.train.weights.policies import load_policy

ROWS, PROMPT, WIDTH = 40, 9, 12


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small passes are slower on several threads."""
    with deterministic(threads=1, seed=0):
        yield


class UnpaddedGRPO(UnpaddedLogprobs, GRPOTrainer):
    pass


def trainer_of(kind: type, base: pathlib.Path, folder: pathlib.Path, *, lora: bool, **options: Any):
    """A trainer of ``kind`` on a fresh copy of the tiny policy."""
    policy = load_policy(str(base))
    settings = {
        "output_dir": str(folder),
        "report_to": "none",
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "beta": 0.0,
        "per_device_train_batch_size": ROWS,
        "num_generations": 4,
    }
    with silence_libraries():
        trainer = kind(
            model=policy.model,
            args=GRPOConfig(**settings, **options),
            train_dataset=Dataset.from_list([{"prompt": "2,3=5\n"}] * ROWS),
            processing_class=policy.tokenizer,
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
            peft_config=make_lora_config(LoraParams(enabled=lora, rank=4)),
        )
    trainer.current_gradient_accumulation_steps = 1
    return trainer


def batch(*, masked: int, silent: int, groups: int = ROWS) -> dict[str, torch.Tensor]:
    """Paths of different lengths: some masked by the loss, some with an advantage of zero.

    The prompts of ``groups`` are interleaved, as in a shuffled batch.
    """
    generator = torch.Generator().manual_seed(2)

    def whole(low: int, high: int, count: int) -> torch.Tensor:
        return torch.randint(low, high, (count,), generator=generator)

    before, after = whole(1, PROMPT + 1, groups), whole(1, WIDTH + 1, ROWS)
    prompts = whole(3, 200, groups * PROMPT).view(groups, PROMPT)
    turns = torch.arange(ROWS) % groups
    after[-masked:] = 0
    advantages = torch.randn(ROWS, generator=generator)
    advantages[:silent] = 0
    mask = (torch.arange(WIDTH) < after[:, None]).long()
    return {
        "prompt_ids": prompts[turns],
        "prompt_mask": (torch.arange(PROMPT) >= PROMPT - before[:, None]).long()[turns],
        "completion_ids": whole(3, 200, ROWS * WIDTH).view(ROWS, WIDTH),
        "completion_mask": mask,
        "advantages": advantages,
        "num_items_in_batch": mask.sum(),
    }


def outcome(trainer: Any, inputs: dict[str, torch.Tensor]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Loss and metrics, and the gradient of every weight."""
    loss = trainer.compute_loss(trainer.model.train(), inputs)
    loss.backward()
    figures = {name: values[-1] for name, values in trainer._metrics["train"].items()}
    grads = {
        name: torch.zeros_like(weight) if weight.grad is None else weight.grad
        for name, weight in trainer.model.named_parameters()
        if weight.requires_grad
    }
    return {"loss": loss.item(), **figures}, grads


@pytest.mark.parametrize("groups", [ROWS, 10], ids=["apart", "shared"])
@pytest.mark.parametrize(
    ("options", "lora"),
    [
        ({"loss_type": "dapo"}, False),
        ({"loss_type": "dapo"}, True),
        ({"loss_type": "grpo", "entropy_coef": 0.1}, False),
        ({"importance_sampling_level": "sequence"}, False),
        ({"loss_type": "cispo", "epsilon_high": 5.0}, False),
        ({"importance_sampling_level": "sequence", "loss_type": "luspo"}, False),
    ],
    ids=["dapo", "dapo-lora", "grpo-entropy", "gspo", "cispo", "rloo"],
)
def test_loss_gradient_and_metrics_equal_those_of_the_padded_batch(
    options, lora, groups, base: pathlib.Path, tmp_path: pathlib.Path
):
    """Forty paths of 1 to 12 tokens, eight of them masked, ten with an advantage of zero.

    Each has its own prompt of 1 to 9 tokens, or every tenth path has the same.
    """
    inputs = batch(masked=8, silent=10, groups=groups)
    expected, expected_grads = outcome(
        trainer_of(GRPOTrainer, base, tmp_path / "plain", lora=lora, **options), inputs
    )
    found, grads = outcome(
        trainer_of(UnpaddedGRPO, base, tmp_path / "unpadded", lora=lora, **options), inputs
    )
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-5, nan_ok=True)
    assert any(grad.abs().max() > 1e-3 for grad in expected_grads.values())
    for name, grad in expected_grads.items():
        torch.testing.assert_close(grads[name], grad, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("masked", "silent"), [(ROWS, 0), (8, ROWS)], ids=["masked", "silent"])
def test_a_batch_without_signal_has_a_gradient_of_zero(masked, silent, base, tmp_path):
    """All paths truncated, or all advantages zero: backward() works and all gradients are zero."""
    trainer = trainer_of(UnpaddedGRPO, base, tmp_path, lora=False, loss_type="dapo")
    found, grads = outcome(trainer, batch(masked=masked, silent=silent))
    assert found["loss"] == 0
    assert all(not grad.any() for grad in grads.values())


@pytest.mark.parametrize("checkpointing", [False, True])
def test_a_shared_prompt_is_computed_once(checkpointing, base, tmp_path):
    """Ten prompts of forty paths: the first layer sees ten rows of them, before the passes over paths.

    Gradient checkpointing keeps no cache, so each path computes its own prompt; the gradient is the
    same.
    """
    trainer = trainer_of(UnpaddedGRPO, base, tmp_path / "plain", lora=False, loss_type="dapo")
    inputs = batch(masked=8, silent=0, groups=10)
    _, expected = outcome(trainer, inputs)
    trainer = trainer_of(UnpaddedGRPO, base, tmp_path / "counted", lora=False, loss_type="dapo")
    if checkpointing:
        trainer.model.gradient_checkpointing_enable()
    shapes = []
    trainer.model.model.embed_tokens.register_forward_hook(
        lambda _module, given, _out: shapes.append(tuple(given[0].shape))
    )
    _, grads = outcome(trainer, inputs)
    for name, grad in expected.items():
        torch.testing.assert_close(grads[name], grad, rtol=1e-3, atol=1e-5)
    own = [columns <= WIDTH + 1 for _, columns in shapes[1:]]
    assert (shapes[0] == (10, PROMPT - 1)) is not checkpointing
    assert all(own) is not checkpointing


def test_rows_of_similar_length_share_a_pass():
    """Completions of 2 and of 10 tokens, 16 each, alternating: two passes, 2 and 10 columns wide.

    Of the 4 columns of the prompts only the last 3 are used. The last row is masked.
    """
    lengths = torch.tensor([2, 10] * 16 + [0])
    mask = torch.cat(
        [torch.tensor([[0, 1, 1, 1]]).repeat(33, 1), (torch.arange(10) < lengths[:, None]).long()],
        1,
    )
    passes = plan_passes(mask, width=10, grad_B=torch.ones(33, dtype=torch.bool), max_rows=33)
    assert [(one.rows_R.tolist(), one.columns) for one in passes] == [
        (list(range(0, 32, 2)), slice(1, 6)),
        (list(range(1, 32, 2)), slice(1, 14)),
    ]
    assert all(one.needs_grad for one in passes)


def test_rows_without_gradient_have_their_own_passes():
    """Rows 0 and 2 need a gradient, row 1 does not: no pass mixes them."""
    mask = torch.ones(3, 4, dtype=torch.long)
    passes = plan_passes(mask, width=2, grad_B=torch.tensor([True, False, True]), max_rows=3)
    assert [(one.rows_R.tolist(), one.needs_grad) for one in passes] == [
        ([0, 2], True),
        ([1], False),
    ]
