"""What the simulated device shares with a real one; the other contracts rest on it."""

import pickle

import pytest
import torch
from torch.nn import functional

from tests.simulated_cuda import device


def test_numbers_are_those_of_the_cpu():
    """Forward, gradients and one update of a layer, with an attention in it."""
    found = []
    for place in ("cpu", "cuda"):
        torch.manual_seed(1)
        weight = torch.randn(4, 4).to(place).requires_grad_()
        rows = torch.arange(24.0).view(1, 1, 6, 4).to(place) / 24
        optimizer = torch.optim.AdamW([weight], lr=0.1)
        loss = functional.scaled_dot_product_attention(rows @ weight, rows, rows, is_causal=True)
        loss.square().sum().backward()
        assert weight.grad.device.type == place
        optimizer.step()
        found.append(weight.detach().cpu())
    assert torch.equal(*found)


def test_devices_are_not_mixed():
    """A tensor of the host beside one of the device is refused; a single number is not."""
    ours = torch.ones(3, device="cuda")
    with pytest.raises(RuntimeError, match="same device"):
        ours + torch.ones(3)
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(3)[torch.zeros(1, dtype=torch.long, device="cuda")]
    with pytest.raises(TypeError, match="numpy"):
        ours.numpy()
    assert (ours + torch.tensor(1.0)).tolist() == [2, 2, 2]
    assert pickle.loads(pickle.dumps(ours.cpu())).tolist() == [1, 1, 1]


def test_waits_of_the_host_are_counted():
    """A copy to the device, a number and a mask of unknown size: one each."""
    rows = torch.arange(4.0).to("cuda")
    assert rows.sum().item() == 6
    assert len(rows[rows > 1]) == 2
    assert sum(device.SYNCS.values()) == 3, device.SYNCS


def test_memory_is_shared_by_views():
    """A change of a view is one of its base, and a view knows its device."""
    base = torch.zeros(2, 3, device="cuda")
    base.t()[1].fill_(7)
    base[0, 0] = 1
    assert base.tolist() == [[1, 7, 0], [0, 7, 0]]
    assert base[:1].device == torch.device("cuda:0")


def test_strict_mode_refuses_sums_of_floats():
    """Cumulative sums of floats and products without a workspace, as on CUDA; sums of whole numbers pass."""
    torch.use_deterministic_algorithms(mode=True)
    try:
        with pytest.raises(RuntimeError, match="deterministic"):
            torch.ones(3, device="cuda").cumsum(-1)
        assert torch.ones(3, device="cuda", dtype=torch.long).cumsum(-1).tolist() == [1, 2, 3]
    finally:
        torch.use_deterministic_algorithms(mode=False)
