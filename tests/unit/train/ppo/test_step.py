"""Gradients, updates and checkpoints of PPO on fixed paths."""

import pathlib
from collections.abc import Sequence
from itertools import chain

import pytest
import torch
from transformers import AutoModelForCausalLM

from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.train.online.live_rollouts import LiveRollouts
from pipeline_lib.train.online.rollouts import DrawnPath
from pipeline_lib.train.phases import TrainContext, run_phase
from pipeline_lib.train.ppo.path_batch import TokenPath, collate
from pipeline_lib.train.ppo.token_scores import FILE_NAME, ValueHead, compute_logprobs
from pipeline_lib.train.ppo.trainer import PpoTrainer
from tests.unit.train.ppo.conftest import params_of, phase_of

END = 1
"""End token of the tiny policy."""
ROWS = [{"prompt": "2,3=5\n", "problem_id": "p"}]


def path(*tokens: int, prompt: Sequence[int] = (20, 21)) -> DrawnPath:
    return DrawnPath(prompt_ids=prompt, completion_ids=tokens, logprobs=[-1.0] * len(tokens))


PATHS = [
    path(30, 31, END),
    path(32, END, prompt=(20, 21, 22)),
    path(33, 34, 35, 36, END),
    path(END),
    path(30, END, prompt=(25,)),
    path(31, 30, END),
]
REWARDS = [1.0, 0.0, 1.0, 0.0, 0.5, 0.0]


def gradients(trainer: PpoTrainer) -> dict[str, torch.Tensor]:
    """Gradients of all trainable weights after the step's last backward pass."""
    modules = {"policy": trainer.model, "critic": trainer.value_head}
    return {
        f"{part}.{name}": weight.grad.clone()
        for part, module in modules.items()
        for name, weight in module.named_parameters()
        if weight.grad is not None
    }


def step(trainer: PpoTrainer) -> dict[str, torch.Tensor]:
    """The gradients of one step, with a critic whose values are not zero."""
    torch.nn.init.constant_(trainer.value_head.out.weight, 0.1)
    trainer.training_step(trainer.model, ROWS)
    return gradients(trainer)


def assert_same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    assert any(gradient.abs().max() > 1e-3 for gradient in expected.values())
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-6, rtol=1e-4, msg=name)


@pytest.mark.parametrize("micro_batch_size", [1, 2, 3])
def test_micro_batches_give_the_gradient_of_the_whole_batch(trainer_of, micro_batch_size: int):
    """For policy, body and critic, with entropy and KL in the loss, at any micro-batch size."""
    options = {"entropy_coef": 0.1, "kl_coef": 0.1, "value_coef": 0.5}
    whole = step(trainer_of(PATHS, REWARDS, **options))
    parts = step(trainer_of(PATHS, REWARDS, micro_batch_size=micro_batch_size, **options))
    assert_same(parts, whole)


def test_unjudged_paths_leave_the_batch(trainer_of):
    """Six paths, two without a reward: the gradient is that of the other four."""
    six = step(trainer_of(PATHS, [*REWARDS[:4], None, None]))
    four = step(trainer_of(PATHS[:4], REWARDS[:4]))
    assert_same(six, four)


def test_without_rewards_there_is_no_gradient(trainer_of):
    """A step without rewards after one with rewards leaves no gradient in policy or critic."""
    trainer = trainer_of(PATHS, REWARDS)
    assert step(trainer)
    trainer.model.zero_grad()  # as the trainer's loop does after its update
    trainer._reward = lambda **_: [None] * len(PATHS)
    loss = trainer.training_step(trainer.model, ROWS)
    assert loss == 0
    assert gradients(trainer) == {}


@pytest.mark.parametrize("reward", [0.0, 1.0])
def test_predicted_equal_rewards_have_no_gradient(trainer_of, reward: float):
    """A critic that predicts the reward everywhere leaves no advantage: all gradients are zero."""
    trainer = trainer_of(PATHS, [reward] * len(PATHS))
    torch.nn.init.constant_(trainer.value_head.out.bias, reward)
    trainer.training_step(trainer.model, ROWS)
    assert all(gradient.abs().max() < 1e-3 for gradient in gradients(trainer).values())


def test_a_right_path_becomes_more_likely_and_a_wrong_one_less(trainer_of):
    """In every token of two paths, after one update at a small rate."""
    right, wrong = path(30, 31, END), path(32, 33, END)
    trainer = trainer_of([right, wrong], [1.0, 0.0])
    batch = collate(
        [
            TokenPath(prompt_ids=one.prompt_ids, completion_ids=one.completion_ids, outcome=0.0)
            for one in (right, wrong)
        ],
        pad_id=0,
        device=trainer.args.device,
    )
    before_BT = compute_logprobs(trainer.model, batch)
    trainer.training_step(trainer.model, ROWS)
    with torch.no_grad():
        for weight in trainer.model.parameters():
            weight.sub_(0.01 * weight.grad)
    moved_B = (compute_logprobs(trainer.model, batch) - before_BT).sum(-1)
    assert moved_B[0] > 0 > moved_B[1]


def test_each_minibatch_of_each_pass_is_an_update(trainer_of):
    """Two passes of three minibatches are six updates; the trainer's loop makes the last. Each pass
    covers all paths, in its own order."""
    trainer = trainer_of(PATHS, REWARDS, updates=2, minibatches=3)
    updates = [places.tolist() for places in trainer._minibatches(len(PATHS))]
    assert [len(places) for places in updates] == [2] * 6
    first, second = (list(chain(*updates[part])) for part in (slice(3), slice(3, 6)))
    assert sorted(first) == sorted(second) == list(range(6))
    assert first != second
    trainer.create_optimizer()
    made = []
    trainer.optimizer.register_step_post_hook(lambda *_: made.append(1))
    trainer.training_step(trainer.model, ROWS)
    assert len(made) == 5


def test_policy_and_critic_have_their_own_learning_rates(trainer_of):
    """Adam's first update is its rate, whatever the gradient: 0.3 for the critic's bias, 0.01 for the
    weights of the policy.
    """
    trainer = trainer_of(PATHS, REWARDS, value_lr=0.3)
    trainer.create_optimizer()
    bias = trainer.value_head.out.bias
    before, weights = bias.item(), [w.detach().clone() for w in trainer.model.parameters()]
    trainer.training_step(trainer.model, ROWS)
    trainer.optimizer.step()
    assert abs(bias.item() - before) == pytest.approx(0.3, rel=1e-3)
    moved = [
        (w - old).abs().max() for w, old in zip(trainer.model.parameters(), weights, strict=True)
    ]
    assert max(moved).item() == pytest.approx(0.01, rel=1e-3)


def test_the_log_has_the_metrics_of_the_step(trainer_of):
    """Before any update the ratio is 1, so nothing is clipped, and the policy is its own reference.

    Rewards sum to 2.5 over six paths of 16 tokens.
    """
    trainer = trainer_of(PATHS, REWARDS, kl_coef=0.1)
    trainer.training_step(trainer.model, ROWS)
    trainer.log({"loss": 0.0})
    line = trainer.state.log_history[-1]
    assert line["reward"] == pytest.approx(2.5 / 6)
    assert line["completions/mean_length"] == pytest.approx(16 / 6)
    assert line["clip_fraction"] == 0
    assert line["kl"] == pytest.approx(0, abs=1e-6)
    assert line["update_kl"] == pytest.approx(0, abs=1e-6)
    assert line["entropy"] > 0
    assert line["value_loss"] > 0
    assert line["explained_variance"] == pytest.approx(0)


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
