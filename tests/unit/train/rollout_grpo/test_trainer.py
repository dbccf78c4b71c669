"""Steps of GRPO over rollouts of a tiny policy, against single sequences and autograd."""

import math

import numpy as np
import pytest
import torch

from pipeline_lib.params.apr import AprRlParams
from pipeline_lib.train.offline.bucketed_sft import TokenRow
from pipeline_lib.train.phases import Phase, Schedule
from pipeline_lib.train.phases import _settings as settings_of
from pipeline_lib.train.rollout_grpo.rollouts import RewardedRollout
from pipeline_lib.train.rollout_grpo.trainer import trainer_factory
from pipeline_lib.train.weights.policies import load_policy

END = 1
KL_COEF = 0.05
ROW = {"prompt": "2,3=5\n", "problem_id": "p"}


class GivenRollouts:
    """Returns the same rollouts at every step. Implements RolloutSource."""

    def __init__(self, rollouts):
        self.rollouts = rollouts

    def draw(self, prompts, **_):
        assert len(prompts) == len(self.rollouts)
        return self.rollouts


def row(prefix, *drawn):
    return TokenRow(ids_L=np.array([*prefix, *drawn], dtype=np.int32), loss_from=len(prefix))


def rollout(reward, *rows):
    return RewardedRollout(sequences=rows, reward=reward, counts={})


ONE = [row((20, 21), 30, 31, END)]
TWO = [row((20,), 32, END), row((20, 21, 22, 23), 33)]
FOUR = [
    row((25,), 30, END),
    row((26, 27), 34, 35, 36, END),
    row((20, 28), END),
    row((21, 22, 23), 31, 30),
]
ROLLOUTS = [rollout(1.0, *ONE), rollout(0.0, *TWO), rollout(0.0, *FOUR)]
# Rewards 1, 0, 0: mean 1/3, standard deviation sqrt(2)/3.
ADVANTAGES = [math.sqrt(2), -1 / math.sqrt(2), -1 / math.sqrt(2)]


@pytest.fixture
def trainer_of(base, tmp_path):
    """Makes a trainer whose policy has left the start of training, so that the divergence is not 0."""

    def make(rollouts, *, pass_tokens=1000, updates=1, kl_coef=KL_COEF, bfloat16=False):
        rl = AprRlParams(
            group_size=len(rollouts),
            updates=updates,
            pass_tokens=pass_tokens,
            precision="bfloat16" if bfloat16 else "float32",
        )
        phase = Phase(
            name="rl",
            schedule=Schedule(
                steps=2,
                lr=1e-2,
                batch_size=len(rollouts),
                micro_batch_size=len(rollouts),
                checkpoint_every=100,
            ),
            make_trainer=trainer_factory(
                [ROW], rl, source=GivenRollouts(rollouts), kl_coef=kl_coef
            ),
        )
        policy = load_policy(str(base))
        trainer = phase.make_trainer(policy, settings_of(phase, policy, tmp_path / "work", 1))
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for weight in trainer.model.parameters():
                weight.add_(0.02 * torch.randn(weight.shape, generator=generator))
        return trainer

    return make


def step(trainer):
    """The loss of a step, and the gradients of its last update."""
    trainer.create_optimizer()
    loss = trainer.training_step(trainer.model, [ROW])
    return loss.item(), {
        name: weight.grad.clone()
        for name, weight in trainer.model.named_parameters()
        if weight.grad is not None
    }


def logprobs_of(model, sequence):
    """Of the drawn tokens of one sequence, by the logits of the whole model."""
    ids = torch.tensor(sequence.ids_L, dtype=torch.long)
    picked = slice(sequence.loss_from - 1, len(ids) - 1)
    scores = model(input_ids=ids[None]).logits[0].log_softmax(-1)
    return scores[picked].gather(-1, ids[1:][picked, None])[:, 0]


def by_single_sequences(trainer, base):
    """Loss and gradients of the formula, a sequence at a time."""
    model, start = trainer.model, load_policy(str(base)).model
    total = 0.0
    for one, advantage in zip(ROLLOUTS, ADVANTAGES, strict=True):
        for sequence in one.sequences:
            new = logprobs_of(model, sequence)
            ratio = (new - new.detach()).exp()
            log_ratio = logprobs_of(start, sequence).detach() - new
            k3 = log_ratio.exp() - 1 - log_ratio
            total += (-advantage * ratio).mean() / len(one.sequences) + KL_COEF * k3.mean()
    loss = total / 7
    names, weights = zip(*model.named_parameters(), strict=True)
    return loss.item(), dict(zip(names, torch.autograd.grad(loss, weights), strict=True))


@pytest.mark.parametrize("pass_tokens", [1, 9, 1000])
def test_a_step_is_the_formula_in_one_pass_and_in_many(trainer_of, base, pass_tokens):
    """Rollouts of 1, 2 and 4 sequences; 7, several and one pass give the loss and gradients of the formula."""
    trainer = trainer_of(ROLLOUTS, pass_tokens=pass_tokens)
    expected, expected_gradients = by_single_sequences(trainer, base)
    loss, gradients = step(trainer)
    assert expected > 1e-6
    assert loss == pytest.approx(expected, rel=1e-4)
    assert gradients.keys() == expected_gradients.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, expected_gradients[name], rtol=1e-3, atol=1e-6)


def test_end_tokens_are_trained(trainer_of):
    """A rollout that ends at once, rewarded, beside one that goes on: an update makes the end likelier."""
    ended, went_on = row((20, 21), END), row((20, 21), 30, 31)
    trainer = trainer_of([rollout(1.0, ended), rollout(0.0, went_on)], kl_coef=0.0)

    def end_logprob():
        logits = trainer.model(input_ids=torch.tensor([[20, 21]])).logits[0, -1]
        return logits.log_softmax(-1)[END].item()

    before = end_logprob()
    step(trainer)
    trainer.optimizer.step()
    assert end_logprob() > before + 0.01


def test_equal_rewards_train_by_the_divergence_alone(trainer_of):
    """Without its weight the gradients of a group of equal rewards vanish; with it they do not."""
    equal = [rollout(1.0, *ONE), rollout(1.0, *TWO)]
    sizes = [
        sum(gradient.abs().sum().item() for gradient in step(trainer)[1].values())
        for trainer in (trainer_of(equal, kl_coef=0.0), trainer_of(equal))
    ]
    assert sizes[0] == 0
    assert sizes[1] > 1e-4


def test_a_failed_rollout_changes_nothing(trainer_of):
    """Its sequences, and its place in the group: gradients as without it."""
    pair = [rollout(1.0, *ONE), rollout(0.0, *TWO)]
    without = step(trainer_of(pair))
    with_failed = step(trainer_of([pair[0], rollout(None, *FOUR), pair[1]]))
    assert with_failed[0] == without[0]
    for name, gradient in with_failed[1].items():
        assert torch.equal(gradient, without[1][name])


def test_a_draw_of_failures_changes_no_weight(trainer_of):
    """No gradients, loss 0, and an update that does nothing."""
    trainer = trainer_of([rollout(None), rollout(None)], updates=2)
    before = [weight.clone() for weight in trainer.model.parameters()]
    assert step(trainer) == (0.0, {})
    trainer.optimizer.step()
    assert all(map(torch.equal, before, trainer.model.parameters()))


def test_the_ratio_is_1_before_the_first_update(trainer_of):
    """One update: no token is clipped, and the divergence from the drawing policy is exactly 0. Two: not."""
    once, twice = (trainer_of(ROLLOUTS, updates=updates) for updates in (1, 2))
    step(once)
    step(twice)
    assert once._step_metrics["update_kl"] == once._step_metrics["clip_fraction"] == 0
    assert once._step_metrics["kl"] > 0
    assert twice._step_metrics["update_kl"] > 0


def test_the_ratio_is_1_in_bfloat16_as_well(trainer_of):
    """Products of bfloat16 change the gradients; the probabilities of both sides are of the same pass."""
    plain, rounded = trainer_of(ROLLOUTS), trainer_of(ROLLOUTS, bfloat16=True)
    gradients = [step(trainer)[1] for trainer in (plain, rounded)]
    assert rounded._step_metrics["update_kl"] == rounded._step_metrics["clip_fraction"] == 0
    name = "model.layers.0.mlp.up_proj.weight"
    assert not torch.equal(gradients[0][name], gradients[1][name])
    torch.testing.assert_close(gradients[0][name], gradients[1][name], rtol=0.3, atol=1e-3)


def test_later_updates_keep_the_probabilities_of_the_drawing_policy(trainer_of, base):
    """A second update's divergence from it: that of the weights after the first, a sequence at a time."""
    trainer = trainer_of(ROLLOUTS, updates=2)
    before = [parameter.detach().clone() for parameter in trainer.model.parameters()]
    step(trainer)
    after = [parameter.detach().clone() for parameter in trainer.model.parameters()]

    def logprobs(weights):
        model = load_policy(str(base)).model
        with torch.no_grad():
            for parameter, weight in zip(model.parameters(), weights, strict=True):
                parameter.copy_(weight)
            rows = [logprobs_of(model, row) for one in ROLLOUTS for row in one.sequences]
        return torch.cat(rows)

    old, new = logprobs(before), logprobs(after)
    k3 = (new - old).exp() - 1 - (new - old)
    # The mean of both updates, of which the first has a divergence of 0.
    assert trainer._step_metrics["update_kl"] == pytest.approx(k3.mean().item() / 2, rel=1e-3)
