"""Communication between branches: a mean weighed by scores, when it happens, what it carries."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.latent.branches import Scorer, communicated, communication_steps, first_grad_step
from pipeline_lib.params.latent import LATENT_PRESETS, LatentModelParams

BRIEF = LATENT_PRESETS["brief"].model


def latents(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    drawn = torch.Generator().manual_seed(seed)
    return torch.randn(2, 3, 4, 5, generator=drawn), torch.randn(2, 3, generator=drawn)


def test_communication_by_hand():
    """Scores 0 and ln 3 weigh 1/4 and 3/4: mean 3 of 0 and 4; a tenth of the way is .3 and 3.9."""
    latents_BKSD = torch.tensor([0.0, 4.0]).view(1, 2, 1, 1)
    scores_BK = torch.tensor([[1.0, 3.0]]).log()
    moved = communicated(latents_BKSD, scores_BK, alpha=0.1, temperature=1.0)
    assert moved.flatten().tolist() == pytest.approx([0.3, 3.9])


def test_temperature_evens_out_the_scores():
    """Very hot, all branches weigh alike: the mean of 0 and 4 is 2 whatever the scores."""
    latents_BKSD = torch.tensor([0.0, 4.0]).view(1, 2, 1, 1)
    moved = communicated(latents_BKSD, torch.tensor([[0.0, 5.0]]), alpha=1.0, temperature=1e6)
    assert moved.flatten().tolist() == pytest.approx([2.0, 2.0], abs=1e-4)


@given(st.integers(0, 50), st.floats(0, 1), st.floats(0.1, 10))
def test_communication_stays_in_the_convex_hull(seed, alpha, temperature):
    """No coordinate leaves the range that it had among the branches."""
    latents_BKSD, scores_BK = latents(seed)
    moved = communicated(latents_BKSD, scores_BK, alpha=alpha, temperature=temperature)
    assert (moved <= latents_BKSD.amax(1, keepdim=True) + 1e-5).all()
    assert (moved >= latents_BKSD.amin(1, keepdim=True) - 1e-5).all()


def test_alpha_one_makes_branches_equal():
    """All go the whole way to the same mean."""
    moved = communicated(*latents(), alpha=1.0, temperature=1.0)
    assert torch.allclose(moved, moved[:, :1].expand_as(moved))


def test_alpha_zero_and_one_branch_change_nothing():
    """No way to go, or nobody to go to."""
    latents_BKSD, scores_BK = latents()
    assert communicated(latents_BKSD, scores_BK, alpha=0.0, temperature=1.0).equal(latents_BKSD)
    one = communicated(latents_BKSD[:, :1], scores_BK[:, :1], alpha=0.5, temperature=1.0)
    assert torch.allclose(one, latents_BKSD[:, :1])


def test_communication_does_not_care_for_the_order_of_branches():
    """Branches in another order give the same results in that order."""
    latents_BKSD, scores_BK = latents()
    order = torch.tensor([2, 0, 1])
    moved = communicated(latents_BKSD, scores_BK, alpha=0.3, temperature=1.0)
    reordered = communicated(
        latents_BKSD[:, order], scores_BK[:, order], alpha=0.3, temperature=1.0
    )
    assert torch.allclose(reordered, moved[:, order], atol=1e-6)


def test_branches_communicate_every_second_step_but_not_after_the_last():
    """Eight steps: after the second, fourth and sixth, which are 1, 3 and 5 counted from 0."""
    assert communication_steps(BRIEF, 8) == (1, 3, 5)
    assert communication_steps(BRIEF.model_copy(update={"comm_interval": 1}), 3) == (0, 1)


@pytest.mark.parametrize("change", [{"alpha": 0.0}, {"num_branches": 1}])
def test_independent_branches_never_communicate(change):
    """With alpha 0 or a single branch the scorer need not even be asked."""
    assert communication_steps(BRIEF.model_copy(update=change), 8) == ()


@pytest.mark.parametrize(
    ("change", "first"),
    [
        ({}, 6),
        ({"comm_gradient": True}, 5),
        ({"comm_gradient": True, "alpha": 0.0}, 6),
        ({"comm_gradient": True, "grad_steps": 4}, 4),
        ({"grad_steps": 8}, 0),
    ],
)
def test_where_the_gradient_starts(change, first):
    """The last communication of eight steps follows step 5; the option takes that step in."""
    assert first_grad_step(BRIEF.model_copy(update=change), 8) == first


LOGITS_BKLV = torch.randn(2, 3, 3, 5, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("certainty", [True, False])
@pytest.mark.parametrize("reads", ["all", "first"])
def test_a_new_scorer_thinks_every_branch_wrong(reads, certainty):
    """Its score is its bias of -5, whatever it reads and is told."""
    scorer = Scorer(6, reads=reads, certainty=certainty)
    assert scorer(torch.randn(2, 3, 4, 6), LOGITS_BKLV).tolist() == [[-5.0] * 3] * 2


def test_what_the_scorer_is_told_of_certainty():
    """Tokens of probability 1/2 and 2/3: ln 1/3 in all, and ln 1/2 for the least sure one."""
    scorer = Scorer(6, reads="all", certainty=True)
    torch.nn.init.constant_(scorer.certainty.weight, 1.0)
    # Stablemax weighs the logits 1, 0 and -1e9 as 2, 1 and nothing.
    logits_BKLV = torch.tensor([[[[1.0, 0, 0], [1.0, 0, -1e9]]]])
    [[score]] = scorer(torch.randn(1, 1, 3, 6), logits_BKLV).tolist()
    assert score == pytest.approx(-5 + math.log(1 / 3) + math.log(1 / 2), abs=1e-6)


def test_the_answer_does_not_learn_from_being_scored():
    """Scores move with the latents and with the worth of certainty, the logits get no gradient."""
    scorer = Scorer(6, reads="all", certainty=True)
    torch.nn.init.normal_(scorer.certainty.weight)
    logits_BKLV = LOGITS_BKLV.clone().requires_grad_()
    scorer(torch.randn(2, 3, 4, 6), logits_BKLV).sum().backward()
    assert logits_BKLV.grad is None
    assert scorer.certainty.weight.grad.abs().sum() > 0


@pytest.mark.parametrize(("reads", "read"), [("all", range(4)), ("first", [0])])
def test_positions_that_the_scorer_reads(reads, read):
    """Its score moves with the latents of these positions and of no other."""
    scorer = Scorer(6, reads=reads, certainty=True)
    torch.nn.init.normal_(scorer.out.weight)
    latents_BKSD = torch.randn(2, 3, 4, 6, requires_grad=True)
    [grad_BKSD] = torch.autograd.grad(scorer(latents_BKSD, LOGITS_BKLV).sum(), latents_BKSD)
    moved_S = grad_BKSD.abs().sum((0, 1, 3)) > 0
    assert moved_S.nonzero().flatten().tolist() == list(read)


def test_a_scorer_of_equal_positions_reads_one():
    """Where all positions are alike both ways to read them are the same formula."""
    torch.manual_seed(1)
    first, whole = (Scorer(6, reads=reads, certainty=False) for reads in ("first", "all"))
    torch.nn.init.normal_(first.out.weight)
    whole.load_state_dict(first.state_dict())
    latents_BKSD = torch.randn(2, 3, 1, 6).expand(-1, -1, 4, -1)
    torch.testing.assert_close(whole(latents_BKSD, LOGITS_BKLV), first(latents_BKSD, LOGITS_BKLV))


def test_a_gradient_longer_than_the_recursion_is_refused():
    """More gradient steps than steps is a mistake, not all of them."""
    with pytest.raises(ValueError, match="grad_steps=3 is above steps=2"):
        LatentModelParams(steps=2, grad_steps=3)
