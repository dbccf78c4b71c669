"""Dead branches are reinitialised next to overloaded ones; all others are unchanged."""

import pytest
import torch

from pipeline_lib.params.prr import PrrLossParams
from pipeline_lib.systems.prr.model import losses
from pipeline_lib.systems.prr.model.batches import Carry
from pipeline_lib.systems.prr.model.branches import (
    BranchVectors,
    accumulate_demand,
    dead_and_overloaded,
    reinit_dead_branches,
)
from tests.unit.systems.prr.small_models import random_batch, small_prr

# Branches 0 and 1 give equal answers; 3 covers all examples that 2 does not.
SAVING, LEFT, USED = (0.005, 0.0, 0.5, 0.9), (0.02, 0.02, 0.02, 0.2), (0.3, 0.4, 1.0, 2.0)
EQUAL = (0.1, 0.1, 0.1, 0.1)


def as_tensor(values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)


def make_carry(*, window: int = 5, saving=SAVING, left=LEFT) -> Carry:
    """The sums of five rows."""
    return {
        "saving_BK": as_tensor([saving] * 5),
        "left_BK": as_tensor([left] * 5),
        "used_BK": as_tensor([USED] * 5),
        "window_B": torch.full((5,), window),
    }


def make_vectors() -> BranchVectors:
    torch.manual_seed(1)
    return BranchVectors(4, 64, every_step=True)


def moved_rows(vectors: BranchVectors, *, carry: Carry | None, progress: float) -> list[list[int]]:
    """Branches whose initial and step vectors are changed by ``reinit_dead_branches``."""
    before = [part.detach().clone() for part in vectors.parameters()]
    generator = torch.Generator().manual_seed(2)
    reinit_dead_branches(vectors, carry, every=5, progress=progress, generator=generator)
    return [
        (was != part).any(1).nonzero().flatten().tolist()
        for was, part in zip(before, vectors.parameters(), strict=True)
    ]


@pytest.mark.parametrize("tied", [False, True])
def test_branch_demand_agrees_with_loops(tied):
    """Agrees with loops over rows and branches; two equal best branches both have margin 0.

    Rows that are not real need nothing.
    """
    params = PrrLossParams(floor=0.3)
    batch = random_batch(4, padded=2)
    logits_BKLV = torch.randn(6, 3, 7, 6, generator=torch.Generator().manual_seed(3))
    if tied:
        logits_BKLV[:, 1] = logits_BKLV[:, 0]
    demand = losses.branch_demand(logits_BKLV, batch, params, progress=0.4)
    [tau, *_] = losses.annealed_temperatures(params, batch.labels_BL, progress=0.4).tolist()
    rows = losses.branch_losses(logits_BKLV, batch.labels_BL)[:4].tolist()
    for index, row in enumerate(rows):
        for branch in range(3):
            without = min(row[:branch] + row[branch + 1 :]) - row[branch]
            share = torch.softmax(-as_tensor(row) / tau, 0)[branch].item()
            saving, left = demand["saving_BK"][index, branch], demand["left_BK"][index, branch]
            assert saving.item() == pytest.approx(max(0.0, without), abs=1e-6)
            assert left.item() == pytest.approx(share * row[branch], abs=1e-6)
            used = share * (max(row) - min(row))
            assert demand["used_BK"][index, branch].item() == pytest.approx(used, abs=1e-6)
    assert not demand["saving_BK"][4:].any()
    assert not demand["left_BK"][4:].any()
    assert not demand["used_BK"][4:].any()
    if tied:
        assert not demand["saving_BK"][:, :2].any()


@pytest.mark.parametrize(
    ("saving", "left", "used", "pair"),
    [
        # Of two dead branches, the less used one.
        (SAVING, LEFT, USED, (0, 3)),
        (SAVING, LEFT, (0.4, 0.3, 1.0, 2.0), (1, 3)),
        # Balanced load, or no separation yet.
        ((0.5, 0.5, 0.5, 0.5), EQUAL, EQUAL, None),
        ((0.0, 0.0, 0.0, 0.0), EQUAL, EQUAL, None),
        # 1.7 times the mean is not overloaded; none is dead; the dead one is the most loaded.
        ((0.0, 0.0, 0.5, 0.9), (0.1, 0.1, 0.1, 0.222), USED, None),
        ((0.011, 0.011, 0.5, 0.9), LEFT, USED, None),
        ((0.5, 0.5, 0.5, 0.0), LEFT, USED, None),
        # None is overloaded and one is unused; or it is sometimes the best.
        ((0.5, 0.5, 0.0, 0.5), (0.1, 0.11, 0.01, 0.1), (1, 1, 0.07, 1), (2, 1)),
        ((0.5, 0.5, 0.0, 0.5), (0.1, 0.11, 0.01, 0.1), (1, 1, 0.08, 1), None),
        # Removing it would still cost loss.
        ((0.5, 0.5, 0.01, 0.5), (0.1, 0.11, 0.01, 0.1), (1, 1, 0.07, 1), None),
    ],
)
def test_dead_and_overloaded(saving, left, used, pair):
    """A branch is dead only if removing it costs under 5 % of the most overloaded one's loss.

    And only if that one has 1.75 times the mean, or the branch under a tenth of the mean use.
    """
    assert dead_and_overloaded(as_tensor(saving), as_tensor(left), as_tensor(used)) == pair


def test_a_dead_branch_gets_the_vectors_of_the_overloaded_one_with_noise():
    """Initial and step vectors plus noise of deviation 0.5; the window is reset."""
    vectors = make_vectors()
    assert moved_rows(vectors, carry=make_carry(), progress=0.5) == [[0], [0]]
    for part in vectors.parameters():
        assert (part[0] - part[3]).std().item() == pytest.approx(0.5, rel=0.3)
    generator = torch.Generator()
    assert (
        reinit_dead_branches(vectors, make_carry(), every=5, progress=0.5, generator=generator)
        is None
    )


@pytest.mark.parametrize(
    ("carry", "progress"),
    [
        (None, 0.5),
        (make_carry(window=4), 0.5),
        (make_carry(left=EQUAL), 0.5),
        (make_carry(), 0.9),
    ],
)
def test_branches_that_are_kept(carry, progress):
    """No reinitialisation within a window, without a pair, or late in training."""
    assert moved_rows(make_vectors(), carry=carry, progress=progress) == [[], []]


def test_a_window_adds_up_steps():
    """Two steps with equal demand have twice its sums."""
    demand = {
        "saving_BK": as_tensor([SAVING]),
        "left_BK": as_tensor([LEFT]),
        "used_BK": as_tensor([USED]),
    }
    carry = accumulate_demand(accumulate_demand(None, demand), demand)
    assert carry["window_B"].tolist() == [2]
    for name, once in (("saving_BK", SAVING), ("left_BK", LEFT), ("used_BK", USED)):
        torch.testing.assert_close(carry[name], 2 * as_tensor([once]))


def test_a_step_within_a_window_reads_nothing_from_the_device():
    """On a device whose values cannot be read."""
    one_BK = torch.ones(5, 4, device="meta")
    demand = {"saving_BK": one_BK, "left_BK": one_BK, "used_BK": one_BK}
    carry = accumulate_demand(accumulate_demand(None, demand), demand)
    options = {"every": 5, "progress": 0.5, "generator": None}
    assert reinit_dead_branches(make_vectors(), carry, **options) is carry
    assert {name: part.device.type for name, part in carry.items()} == {
        "saving_BK": "meta",
        "left_BK": "meta",
        "used_BK": "meta",
        "window_B": "cpu",
    }


def test_a_training_step_reinitialises_before_the_forward_pass():
    """A step with a full window starts a new one and changes the dead branch."""
    model = small_prr(num_branches=4, loss={"restart_every": 5})
    before = model.branches.step_KD.detach().clone()
    generator = torch.Generator().manual_seed(1)
    output = model.training_step(
        random_batch(), carry=make_carry(), progress=0.5, generator=generator
    )
    assert output.carry["window_B"].tolist() == [1] * 5
    assert (model.branches.step_KD != before).any(1).tolist() == [True, False, False, False]
