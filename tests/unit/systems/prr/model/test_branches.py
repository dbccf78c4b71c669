"""Communication between branches: weighted means, schedule, and gradient steps."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.lib.latent_presets import LATENT_PRESETS
from pipeline_lib.params.prr import PrrModelParams
from pipeline_lib.systems.prr.model.branches import (
    communicate,
    communication_steps,
    first_grad_step,
)

BRIEF = LATENT_PRESETS["brief"].model


def latents(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    drawn = torch.Generator().manual_seed(seed)
    return torch.randn(2, 3, 4, 5, generator=drawn), torch.randn(2, 3, generator=drawn)


def test_communication_by_hand():
    """Scores 0 and ln 3 weigh 1/4 and 3/4: mean 3 of 0 and 4; a tenth of the way is .3 and 3.9."""
    latents_BKSD = torch.tensor([0.0, 4.0]).view(1, 2, 1, 1)
    scores_BK = torch.tensor([[1.0, 3.0]]).log()
    moved = communicate(latents_BKSD, scores_BK, alpha=0.1, temperature=1.0)
    assert moved.flatten().tolist() == pytest.approx([0.3, 3.9])


def test_temperature_evens_out_the_scores():
    """At a high temperature weights are uniform: the mean of 0 and 4 is 2."""
    latents_BKSD = torch.tensor([0.0, 4.0]).view(1, 2, 1, 1)
    moved = communicate(latents_BKSD, torch.tensor([[0.0, 5.0]]), alpha=1.0, temperature=1e6)
    assert moved.flatten().tolist() == pytest.approx([2.0, 2.0], abs=1e-4)


@given(st.integers(0, 50), st.floats(0, 1), st.floats(0.1, 10))
def test_communication_stays_in_the_convex_hull(seed, alpha, temperature):
    """Each coordinate stays in the range spanned by the branches."""
    latents_BKSD, scores_BK = latents(seed)
    moved = communicate(latents_BKSD, scores_BK, alpha=alpha, temperature=temperature)
    assert (moved <= latents_BKSD.amax(1, keepdim=True) + 1e-5).all()
    assert (moved >= latents_BKSD.amin(1, keepdim=True) - 1e-5).all()


def test_alpha_one_makes_branches_equal():
    """All branches become the mean."""
    moved = communicate(*latents(), alpha=1.0, temperature=1.0)
    assert torch.allclose(moved, moved[:, :1].expand_as(moved))


def test_alpha_zero_and_one_branch_change_nothing():
    """Without interpolation, or with a single branch, latents are unchanged."""
    latents_BKSD, scores_BK = latents()
    assert communicate(latents_BKSD, scores_BK, alpha=0.0, temperature=1.0).equal(latents_BKSD)
    one = communicate(latents_BKSD[:, :1], scores_BK[:, :1], alpha=0.5, temperature=1.0)
    assert torch.allclose(one, latents_BKSD[:, :1])


def test_communication_is_equivariant_to_branch_order():
    """Permuted branches give permuted results."""
    latents_BKSD, scores_BK = latents()
    order = torch.tensor([2, 0, 1])
    moved = communicate(latents_BKSD, scores_BK, alpha=0.3, temperature=1.0)
    reordered = communicate(latents_BKSD[:, order], scores_BK[:, order], alpha=0.3, temperature=1.0)
    assert torch.allclose(reordered, moved[:, order], atol=1e-6)


def test_branches_communicate_every_second_step_but_not_after_the_last():
    """Eight steps: after the second, fourth and sixth, which are 1, 3 and 5 counted from 0."""
    assert communication_steps(BRIEF, 8) == (1, 3, 5)
    assert communication_steps(BRIEF.model_copy(update={"comm_interval": 1}), 3) == (0, 1)


@pytest.mark.parametrize("change", [{"alpha": 0.0}, {"num_branches": 1}])
def test_independent_branches_never_communicate(change):
    """With alpha 0 or a single branch there is no communication step."""
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
def test_first_gradient_step(change, first):
    """The last communication of eight steps follows step 5; the option takes that step in."""
    assert first_grad_step(BRIEF.model_copy(update=change), 8) == first


def test_a_gradient_longer_than_the_recursion_is_refused():
    """More gradient steps than steps is an error."""
    with pytest.raises(ValueError, match="grad_steps=3 is above steps=2"):
        PrrModelParams(steps=2, grad_steps=3)
