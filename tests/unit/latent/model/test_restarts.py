"""An idle branch begins again beside the one with too much to do, and no other branch ever does."""

import pytest
import torch

from pipeline_lib.latent.model import losses
from pipeline_lib.latent.model.branches import BranchVectors
from pipeline_lib.latent.model.protocol import Carry
from pipeline_lib.latent.model.restarts import idle_and_needy, restarted, watched
from pipeline_lib.params.latent import LatentLossParams
from tests.unit.latent.small_models import made_batch, made_prr

# Branches 0 and 1 give the same answers, 3 has all that 2 does not know.
SAVING, LEFT, USED = (0.005, 0.0, 0.5, 0.9), (0.02, 0.02, 0.02, 0.2), (0.3, 0.4, 1.0, 2.0)
EQUAL = (0.1, 0.1, 0.1, 0.1)


def as_tensor(values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)


def made_carry(*, window: int = 5, saving=SAVING, left=LEFT) -> Carry:
    """The sums of five rows."""
    return {
        "saving_BK": as_tensor([saving] * 5),
        "left_BK": as_tensor([left] * 5),
        "used_BK": as_tensor([USED] * 5),
        "window_B": torch.full((5,), window),
    }


def made_vectors() -> BranchVectors:
    torch.manual_seed(1)
    return BranchVectors(4, 64, every_step=True)


def moved_rows(vectors: BranchVectors, *, carry: Carry | None, progress: float) -> list[list[int]]:
    """Of the start vectors and of those of every step, the branches that ``restarted`` changes."""
    before = [part.detach().clone() for part in vectors.parameters()]
    generator = torch.Generator().manual_seed(2)
    restarted(vectors, carry, every=5, progress=progress, generator=generator)
    return [
        (was != part).any(1).nonzero().flatten().tolist()
        for was, part in zip(before, vectors.parameters(), strict=True)
    ]


@pytest.mark.parametrize("tied", [False, True])
def test_what_rows_need(tied):
    """Against loops over rows and branches; of two equal best branches neither saves anything.

    Rows that are not real need nothing.
    """
    params = LatentLossParams(floor=0.3)
    batch = made_batch(4, padded=2)
    logits_BKLV = torch.randn(6, 3, 7, 6, generator=torch.Generator().manual_seed(3))
    if tied:
        logits_BKLV[:, 1] = logits_BKLV[:, 0]
    answers = losses.Answers(
        logits_BKLV=logits_BKLV, scores_BK=torch.zeros(6, 3), latents_BKSD=torch.zeros(6, 3, 9, 1)
    )
    demand = losses.demand_in(answers, batch, params, progress=0.4)
    [tau, *_] = losses.temperatures(params, batch.labels_BL, progress=0.4).tolist()
    rows = losses.branch_losses(logits_BKLV, batch.labels_BL)[:4].tolist()
    for index, row in enumerate(rows):
        for branch in range(3):
            without = min(row[:branch] + row[branch + 1 :]) - row[branch]
            share = torch.softmax(-as_tensor(row) / tau, 0)[branch].item()
            saving, left = demand.saving_BK[index, branch], demand.left_BK[index, branch]
            assert saving.item() == pytest.approx(max(0.0, without), abs=1e-6)
            assert left.item() == pytest.approx(share * row[branch], abs=1e-6)
            used = share * (max(row) - min(row))
            assert demand.used_BK[index, branch].item() == pytest.approx(used, abs=1e-6)
    assert not demand.saving_BK[4:].any()
    assert not demand.left_BK[4:].any()
    assert not demand.used_BK[4:].any()
    if tied:
        assert not demand.saving_BK[:, :2].any()


@pytest.mark.parametrize(
    ("saving", "left", "used", "pair"),
    [
        # Of the two that nobody would miss the less used one.
        (SAVING, LEFT, USED, (0, 3)),
        (SAVING, LEFT, (0.4, 0.3, 1.0, 2.0), (1, 3)),
        # All do their share, or nothing is split yet.
        ((0.5, 0.5, 0.5, 0.5), EQUAL, EQUAL, None),
        ((0.0, 0.0, 0.0, 0.0), EQUAL, EQUAL, None),
        # The busiest has 1.7 times the mean; nobody is idle; the idle one is the busiest.
        ((0.0, 0.0, 0.5, 0.9), (0.1, 0.1, 0.1, 0.222), USED, None),
        ((0.011, 0.011, 0.5, 0.9), LEFT, USED, None),
        ((0.5, 0.5, 0.5, 0.0), LEFT, USED, None),
        # Nobody is needy, and one is right nowhere; or one is the best now and then.
        ((0.5, 0.5, 0.0, 0.5), (0.1, 0.11, 0.01, 0.1), (1, 1, 0.07, 1), (2, 1)),
        ((0.5, 0.5, 0.0, 0.5), (0.1, 0.11, 0.01, 0.1), (1, 1, 0.08, 1), None),
        # It would be missed all the same.
        ((0.5, 0.5, 0.01, 0.5), (0.1, 0.11, 0.01, 0.1), (1, 1, 0.07, 1), None),
    ],
)
def test_who_begins_again(saving, left, used, pair):
    """Only a branch that saves under 5 % of what is left to the neediest.

    And only if that one has 1.75 times the mean, or the branch under a tenth of the mean use.
    """
    assert idle_and_needy(as_tensor(saving), as_tensor(left), as_tensor(used)) == pair


def test_the_idle_branch_gets_the_vectors_of_the_needy_one_with_noise():
    """Both kinds of vectors, at half a unit from the needy one's; the sums begin anew."""
    vectors = made_vectors()
    assert moved_rows(vectors, carry=made_carry(), progress=0.5) == [[0], [0]]
    for part in vectors.parameters():
        assert (part[0] - part[3]).std().item() == pytest.approx(0.5, rel=0.3)
    generator = torch.Generator()
    assert restarted(vectors, made_carry(), every=5, progress=0.5, generator=generator) is None


@pytest.mark.parametrize(
    ("carry", "progress"),
    [
        (None, 0.5),
        (made_carry(window=4), 0.5),
        (made_carry(left=EQUAL), 0.5),
        (made_carry(), 0.9),
    ],
)
def test_branches_that_stay(carry, progress):
    """Before the window is over, where none is needy, and when too little training is left."""
    assert moved_rows(made_vectors(), carry=carry, progress=progress) == [[], []]


def test_a_window_adds_up_steps():
    """Two steps with the same demand have twice its sums."""
    demand = losses.Demand(
        saving_BK=as_tensor([SAVING]), left_BK=as_tensor([LEFT]), used_BK=as_tensor([USED])
    )
    carry = watched(watched(None, demand), demand)
    assert carry["window_B"].tolist() == [2]
    for name, once in (("saving_BK", SAVING), ("left_BK", LEFT), ("used_BK", USED)):
        torch.testing.assert_close(carry[name], 2 * as_tensor([once]))


def test_a_training_step_restarts_before_it_learns():
    """With the sums of a whole window the step starts a new one, and the branch has moved."""
    model = made_prr(num_branches=4, loss={"restart_every": 5})
    before = model.branches.step_KD.detach().clone()
    generator = torch.Generator().manual_seed(1)
    output = model.training_step(
        made_batch(), carry=made_carry(), progress=0.5, generator=generator
    )
    assert output.carry["window_B"].tolist() == [1] * 5
    assert (model.branches.step_KD != before).any(1).tolist() == [True, False, False, False]
