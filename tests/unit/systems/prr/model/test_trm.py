"""TRM mode: carry between steps, halting, and compute of a prediction."""

import pytest
import torch

from tests.unit.systems.prr.small_models import SMALL_TRM, random_batch, small_trm


def stepped(model, batch, carry=None):
    return model.training_step(
        batch, carry=carry, progress=0.0, generator=torch.Generator().manual_seed(5)
    )


def test_halted_rows_are_replaced_and_others_kept():
    """Row 0 has halted and is replaced by the new batch's row; row 1 is kept."""
    model, first, second = small_trm(), random_batch(2, seed=1), random_batch(2, seed=2)
    carry = dict(stepped(model, first).carry) | {"halted_B": torch.tensor([True, False])}
    after = stepped(model, second, carry).carry
    assert after["steps_B"].tolist() == [1, 2]
    assert after["inputs_BL"][0].equal(second.inputs_BL[0])
    assert after["labels_BL"][1].equal(first.labels_BL[1])
    fresh = stepped(model, second).carry
    for name in ("high_BSD", "low_BSD"):
        assert torch.allclose(after[name][0], fresh[name][0], atol=1e-5)
        assert not torch.allclose(after[name][1], fresh[name][1], atol=1e-2)


def test_carried_steps_are_those_of_a_prediction():
    """Two training steps without an update equal a prediction with two steps."""
    model, batch = small_trm(), random_batch()
    output = stepped(model, batch, stepped(model, batch).carry)
    predicted = model.predict(batch, steps=2)
    logits_BLV = model.head(output.carry["high_BSD"])[:, 2:]
    assert torch.allclose(predicted.logits_BKLV[:, 0], logits_BLV, atol=1e-5)


def test_the_carry_is_out_of_the_graph():
    """The carry is detached: weights have changed since the earlier step."""
    assert not any(
        value.requires_grad for value in stepped(small_trm(), random_batch()).carry.values()
    )


def halting_step(model, batch, steps: int) -> list[int]:
    """Step at which each row halts, if within ``steps``."""
    carry, seen = None, [0] * len(batch.real_B)
    for step in range(1, steps + 1):
        carry = stepped(model, batch, carry).carry
        seen = [
            was or (step if halted else 0)
            for was, halted in zip(seen, carry["halted_B"].tolist(), strict=True)
        ]
    return seen


def test_rows_halt_at_the_last_step_at_the_latest():
    """Initial halt logits are negative, so all rows use three steps."""
    assert halting_step(small_trm(), random_batch(), 3) == [3] * 5


def test_a_positive_halt_logit_halts_unless_exploring():
    """Halts after one step; with exploration after two or three."""
    batch = random_batch(40)
    for exploration, allowed in ((0, {1}), (1, {2, 3})):
        model = small_trm(trm=SMALL_TRM.model_copy(update={"exploration": exploration}))
        torch.nn.init.constant_(model.halt.bias, 5.0)
        carry, seen = None, set()
        generator = torch.Generator().manual_seed(5)
        for _ in range(3):
            carry = model.training_step(batch, carry=carry, progress=0.0, generator=generator).carry
            seen |= set(carry["steps_B"][carry["halted_B"]].tolist())
        assert seen == allowed


def test_a_padding_row_halts_at_once():
    """A padding row frees its slot after one step."""
    assert halting_step(small_trm(), random_batch(2, padded=1), 1) == [0, 0, 1]


@pytest.mark.parametrize("mixer", ["attention", "mlp"])
def test_core_passes_are_counted_correctly(mixer):
    """Two steps of 2 x (2 + 1) passes, for each of three rollouts: 36."""
    model, seen = small_trm(mixer=mixer), []
    model.core.register_forward_hook(lambda _, inputs, __: seen.append(len(inputs[0])))
    output = model.predict(random_batch(), steps=2, noise=0.3, rollouts=3)
    assert output.core_passes == sum(seen) / 5 == 36
    assert output.logits_BKLV.shape == (5, 3, 7, 6)


def test_only_the_last_high_cycle_is_in_the_gradient():
    """Of four cycles of three passes, three run without: the backward pass meets three."""
    model, met = small_trm(trm=SMALL_TRM.model_copy(update={"high_cycles": 4})), []
    model.core.register_full_backward_hook(lambda *_: met.append(1))
    stepped(model, random_batch()).loss.backward()
    assert len(met) == 3


def test_bfloat16_learns_what_float32_does():
    """Autocast must not reuse weight casts of cycles without gradients in the last one."""
    model = small_trm(precision="bfloat16")
    output = stepped(model, random_batch())
    output.loss.backward()
    assert output.carry["high_BSD"].dtype == torch.bfloat16
    assert all(parameter.grad.any() for parameter in model.core.parameters())
    assert torch.isfinite(stepped(model, random_batch(), output.carry).loss)
