"""The critic's head: initial values, gradient into the body, file."""

import pytest
import torch

from pipeline_lib.train.ppo.value_head import FILE_NAME, ValueHead


@pytest.fixture
def head() -> ValueHead:
    """A head with random weights, its output layer included."""
    head = ValueHead(4)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in head.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator))
    return head


def test_initial_values_are_zero():
    """For any hidden state, so the first advantages are the rewards."""
    assert not ValueHead(4)(torch.randn(2, 3, 4), body_share=0.0).any()


@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_body_share_scales_the_gradient_into_the_body(head: ValueHead, share: float):
    """Values and the head's gradient do not change; the body's gradient is scaled by the share."""
    hidden_BTH = torch.randn(2, 3, 4, requires_grad=True)
    whole_BTH = torch.autograd.grad(
        head.out(torch.nn.functional.silu(head.hidden(hidden_BTH))).sum(), hidden_BTH
    )[0]
    values_BT = head(hidden_BTH, body_share=share)
    torch.testing.assert_close(values_BT, head(hidden_BTH, body_share=1.0))
    values_BT.sum().backward()
    found_BTH = torch.zeros_like(whole_BTH) if hidden_BTH.grad is None else hidden_BTH.grad
    torch.testing.assert_close(found_BTH, share * whole_BTH)
    assert head.hidden.weight.grad.abs().sum() > 0


def test_a_saved_head_loads_bit_for_bit(head: ValueHead, tmp_path):
    """All four tensors."""
    head.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
    other = ValueHead(4)
    other.load(tmp_path)
    for name, weight in head.state_dict().items():
        assert torch.equal(other.state_dict()[name], weight)
