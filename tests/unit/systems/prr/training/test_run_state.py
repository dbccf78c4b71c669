"""Resharding the carry of a checkpoint for another number of processes."""

import pytest
import torch

from pipeline_lib.systems.prr.training.devices import Devices
from pipeline_lib.systems.prr.training.ema import Ema
from pipeline_lib.systems.prr.training.run_state import RunState, load_state, save_carry, save_state
from tests.unit.systems.prr.small_models import small_trm

CARRY = {
    "steps_B": torch.arange(12),
    "halted_B": torch.arange(12) % 3 == 0,
    "high_BSD": torch.arange(12 * 6).reshape(12, 2, 3).to(torch.bfloat16),
}
"""Of a batch of twelve rows."""


def make_state(carry: dict[str, torch.Tensor] | None = None, *, step: int = 0) -> RunState:
    """A training without optimizers."""
    model = small_trm()
    return RunState(model=model, ema=Ema(model, decay=0.9), optimizers=(), carry=carry, step=step)


@pytest.mark.parametrize(("wrote", "reads"), [(1, 1), (3, 3), (1, 4), (2, 1), (4, 2), (2, 3)])
def test_rows_keep_their_carry(wrote, reads, tmp_path):
    """Rank r of n has rows r, r + n, ...: written by ``wrote`` of them, read by ``reads``."""
    for rank in range(wrote):
        carried = {name: whole[rank::wrote] for name, whole in CARRY.items()}
        save_carry(make_state(carried), tmp_path, rank=rank)
    save_state(make_state(step=5), tmp_path, world=wrote)
    for rank in range(reads):
        state = make_state()
        devices = Devices(rank=rank, world=reads, device=torch.device("cpu"))
        load_state(state, tmp_path, devices=devices)
        assert state.step == 5
        assert state.carry is not None
        assert state.carry.keys() == CARRY.keys()
        for name, whole in CARRY.items():
            assert state.carry[name].dtype == whole.dtype
            assert state.carry[name].equal(whole[rank::reads]), name


def test_a_model_without_carry_resumes(tmp_path):
    """Without a carry there is no carry file, for any number of processes."""
    save_state(make_state(step=2), tmp_path, world=2)
    state = make_state({"steps_B": torch.arange(12)})
    load_state(state, tmp_path, devices=Devices(rank=0, world=1, device=torch.device("cpu")))
    assert (state.step, state.carry) == (2, None)
