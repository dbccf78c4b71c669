"""The average of a model's weights, and resharding of a carry for another number of processes."""

import pytest
import torch
from torch import nn

from pipeline_lib.systems.prr.training.run_state import (
    RunState,
    averages_of,
    load_state,
    save_carry,
    save_state,
    update_averages,
)
from pipeline_lib.train.devices import Devices
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
    return RunState(model=model, averages=averages_of(model), optimizers=(), carry=carry, step=step)


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


def test_average_by_hand():
    """1, then 3/4 x 1 + 1/4 x 5 = 2, then 3/4 x 2 + 1/4 x 6 = 3."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 1.0)
    averages = averages_of(model)
    for value, average in ((5.0, 2.0), (6.0, 3.0)):
        nn.init.constant_(model.weight, value)
        update_averages(averages, model, decay=0.75)
        assert averages["weight"].item() == pytest.approx(average)
