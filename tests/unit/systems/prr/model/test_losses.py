"""Losses against hand-worked numbers, and their invariants."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.lib.latent_presets import LATENT_PRESETS
from pipeline_lib.params.prr import PrrLossParams
from pipeline_lib.systems.prr.model import losses
from tests.unit.systems.prr.small_models import random_batch

OURS = PrrLossParams()
SOFT_MIN = PrrLossParams(best_of="soft_min", floor=0)
LN2, LN3 = math.log(2), math.log(3)

branch_loss_rows = st.lists(st.floats(0, 20), min_size=1, max_size=8)
temperature = st.floats(0.02, 5)


def as_row(values) -> torch.Tensor:
    return torch.tensor([values], dtype=torch.float64)


def test_stablemax_is_linear_above_zero_and_hyperbolic_below():
    """1 + 0, 1 + 1 and 1 / (1 + 1)."""
    assert losses.stablemax(torch.tensor([0.0, 1.0, -1.0])).tolist() == [1.0, 2.0, 0.5]


def test_stablemax_has_slope_one_at_zero_and_a_slope_at_one():
    """Both sides have slope 1 at 0. The pole of the lower side at 1 gives no NaN gradient."""
    logits = torch.tensor([0.0, 1.0, -1.0], requires_grad=True)
    losses.stablemax(logits).sum().backward()
    assert logits.grad.tolist() == [1.0, 1.0, 0.25]


def test_branch_loss_is_the_mean_over_labels():
    """Logits 1, 0, -1 weigh 2, 1, 1/2 of 3.5: labels 1 and 2 cost ln 3.5 and ln 7, label 0 none."""
    logits_BKLV = torch.tensor([1.0, 0.0, -1.0]).expand(1, 2, 3, 3)
    labels_BL = torch.tensor([[1, 0, 2]])
    expected = (math.log(3.5) + math.log(7)) / 2
    assert losses.branch_losses(logits_BKLV, labels_BL).tolist() == [pytest.approx([expected] * 2)]


def test_a_row_without_labels_costs_nothing_and_is_never_right():
    """Such a row has loss 0 and is not exact; a mean over no labels would be NaN."""
    logits_BKLV = torch.randn(1, 2, 3, 4)
    labels_BL = torch.zeros(1, 3, dtype=torch.long)
    assert losses.branch_losses(logits_BKLV, labels_BL).tolist() == [[0.0, 0.0]]
    assert losses.exact_match(logits_BKLV, labels_BL).tolist() == [[False, False]]


def test_exact_needs_every_label_and_no_other_position():
    """The first branch is wrong at an ignored position only, the second at a label."""
    outputs_BKL = torch.tensor([[[3, 1, 2], [1, 1, 1]]])
    logits_BKLV = torch.nn.functional.one_hot(outputs_BKL, 4).float()
    assert losses.exact_match(logits_BKLV, torch.tensor([[0, 1, 2]])).tolist() == [[True, False]]


def test_soft_minimum_of_two():
    """Losses 0 and ln 3 at tau 1: -ln((1 + 1/3) / 2) = ln(3/2)."""
    soft = losses.best_of_k_loss(as_row([0.0, LN3]), torch.ones(1), SOFT_MIN)
    assert soft.item() == pytest.approx(math.log(1.5))


def test_responsibilities_of_two():
    """Losses 0 and ln 3 at tau 1 weigh 3/4 and 1/4; a floor of 0.2 makes it 0.7 and 0.3."""
    weights_BK = losses.responsibilities(as_row([0.0, LN3]), torch.ones(1), floor=0.2)
    assert weights_BK.tolist() == [pytest.approx([0.7, 0.3])]
    params = PrrLossParams(floor=0.2)
    loss_B = losses.best_of_k_loss(as_row([0.0, LN3]), torch.ones(1), params)
    assert loss_B.item() == pytest.approx(0.3 * LN3)


@given(branch_loss_rows, temperature, st.floats(0, 0.9))
def test_responsibilities_sum_to_one_above_their_floor(values, tau, floor):
    """Every branch gets at least floor / K."""
    weights_K = losses.responsibilities(as_row(values), as_row([tau])[0], floor=floor)[0]
    assert weights_K.sum().item() == pytest.approx(1)
    assert weights_K.min().item() >= floor / len(values) - 1e-9


@pytest.mark.parametrize("params", [OURS, SOFT_MIN], ids=["ours", "soft_min"])
@given(branch_loss_rows, temperature)
def test_best_of_lies_between_least_and_mean(params, values, tau):
    """Minimum <= loss <= mean; equality for one branch."""
    loss = losses.best_of_k_loss(as_row(values), as_row([tau])[0], params).item()
    slack = 1e-6 * (1 + max(values))
    assert min(values) - slack <= loss <= sum(values) / len(values) + slack


@pytest.mark.parametrize("params", [OURS, SOFT_MIN], ids=["ours", "soft_min"])
@given(branch_loss_rows, temperature)
def test_gradient_weights_sum_to_one(params, values, tau):
    """The gradient weights of an example sum to 1 for any number of branches."""
    losses_BK = as_row(values).requires_grad_()
    losses.best_of_k_loss(losses_BK, as_row([tau])[0], params).sum().backward()
    assert losses_BK.grad.sum().item() == pytest.approx(1)
    assert losses_BK.grad.min().item() >= 0


def test_temperature_falls_as_a_power_to_one_over_the_labels():
    """25 labels: 1 at first, 1/5 halfway to 0.6 of training, 1/25 from there on."""
    labels_BL = torch.ones(1, 25, dtype=torch.long)
    taus = [
        losses.annealed_temperatures(OURS, labels_BL, progress=progress).item()
        for progress in (0.0, 0.3, 0.6, 1.0)
    ]
    assert taus == pytest.approx([1, 0.2, 0.04, 0.04])


def test_a_constant_temperature_stays():
    """Equal start and end give 0.1 at every progress."""
    params = PrrLossParams(tau_start=0.1, tau_end=0.1)
    labels_BL = torch.ones(2, 3, dtype=torch.long)
    for progress in (0.0, 0.5, 1.0):
        taus_B = losses.annealed_temperatures(params, labels_BL, progress=progress)
        assert taus_B.tolist() == pytest.approx([0.1, 0.1])


def test_correctness_loss_of_two_branches():
    """Scores ln 3 (thought right with 3/4) and 0; right and wrong: (ln 4/3 + ln 2) / 2."""
    loss_B = losses.correctness_loss(as_row([LN3, 0.0]), torch.tensor([[True, False]]))
    assert loss_B.item() == pytest.approx((math.log(4 / 3) + LN2) / 2)


def test_ranking_loss_of_two_branches():
    """Targets 3/4 and 1/4. Even scores cost ln 2; scores in that ratio cost its entropy."""
    losses_BK, tau_B = as_row([0.0, LN3]), torch.ones(1, dtype=torch.float64)
    assert losses.ranking_loss(as_row([7.0, 7.0]), losses_BK, tau_B).item() == pytest.approx(LN2)
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    scores_BK = as_row([LN3, 0.0])
    assert losses.ranking_loss(scores_BK, losses_BK, tau_B).item() == pytest.approx(entropy)


def test_only_the_correctness_loss_sees_a_common_shift_of_the_scores():
    """Ranking is shift-invariant and leaves the scorer's bias undetermined."""
    losses_BK, tau_B = as_row([0.1, 2.0]), torch.ones(1, dtype=torch.float64)
    bias = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    losses.ranking_loss(as_row([1.0, -1.0]) + bias, losses_BK, tau_B).sum().backward()
    assert bias.grad.item() == pytest.approx(0, abs=1e-12)
    losses.correctness_loss(as_row([1.0, -1.0]) + bias, torch.tensor([[True, True]])).backward()
    assert bias.grad.item() < -0.1


def test_diversity_loss_is_the_mean_over_pairs():
    """Two branches point the same way, one the other: cosines 1, -1, -1 over 1/2 give 1/2, 0, 0."""
    latents_BKSD = torch.tensor([[1.0, 0.0], [2.0, 0.0], [-1.0, 0.0]]).view(1, 3, 1, 2)
    assert losses.diversity_loss(latents_BKSD, margin=0.5).item() == pytest.approx(0.5 / 3)


def test_diversity_of_one_branch_is_zero():
    """A mean over no pairs would be NaN."""
    assert losses.diversity_loss(torch.randn(2, 1, 3, 4), margin=0.5).tolist() == [0, 0]


def test_means_are_over_real_rows():
    """1 and 3 are real, 100 is not; with no real row the mean is 0, not NaN."""
    values_B = torch.tensor([1.0, 3.0, 100.0])
    assert losses.mean_over_real(values_B, torch.tensor([True, True, False])).item() == 2
    assert losses.mean_over_real(values_B, torch.tensor([False] * 3)).item() == 0


def make_answers(num_branches: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Logits, scores and latents."""
    drawn = torch.Generator().manual_seed(1)
    shapes = (5, num_branches, 7, 6), (5, num_branches), (5, num_branches, 9, 4)
    logits_BKLV, scores_BK, latents_BKSD = (torch.randn(one, generator=drawn) for one in shapes)
    return logits_BKLV, scores_BK, latents_BKSD


def test_shares_of_the_scorers_picks():
    """Three rows and one of padding. Picks: 1, 0, 1; lowest loss: 1, 1, 1; right: 1 alone, 1 alone, both.

    The oracle finds 3 of 3, the scorer 2, 1 of the 2 decidable; 2 picks have the lowest loss.
    """
    scores_BK = torch.tensor([[0.0, 1.0], [2.0, 1.0], [-1.0, 3.0], [1.0, 0.0]])
    losses_BK = torch.tensor([[2.0, 1.0], [2.0, 1.0], [0.2, 0.1], [2.0, 1.0]])
    exact_BK = torch.tensor([[False, True], [False, True], [True, True], [False, True]])
    real_B = torch.tensor([True, True, True, False])
    shares = losses.selection_shares(losses_BK, scores_BK, exact_BK, real_B)
    assert {name: round(one.item(), 3) for name, one in shares.items()} == {
        "oracle_exact": 1.0,
        "scorer_exact": 0.667,
        "scorer_picks_best": 0.5,
        "scorer_picks_lowest_loss": 0.667,
    }


def test_without_a_decidable_row_there_is_no_share_of_picks():
    """All branches are wrong: 0 of 0 is NaN, which the log leaves out."""
    wrong_BK, values_BK = torch.zeros(2, 3, dtype=torch.bool), torch.zeros(2, 3)
    shares = losses.selection_shares(values_BK, values_BK, wrong_BK, wrong_BK[:, 0] | True)
    assert shares["scorer_picks_best"].isnan()
    assert shares["scorer_exact"] == 0


def test_the_loss_is_the_sum_of_its_weighted_parts():
    """best_of + s (c correctness + r ranking) + d diversity, with weights that are all different."""
    params = PrrLossParams(
        scorer=0.7, correctness=0.4, ranking=0.3, diversity=0.2, diversity_margin=-1
    )
    loss, parts = losses.total_loss(*make_answers(3), random_batch(5), params, progress=0.5)
    scored = 0.4 * parts["correctness"] + 0.3 * parts["ranking"]
    expected = parts["best_of"] + 0.7 * scored + 0.2 * parts["diversity"]
    assert loss.item() == pytest.approx(expected.item())
    assert parts["diversity"] > 0
    assert parts["ranking"] > 0


def test_the_published_loss_of_the_scorer():
    """Scores 0 and ln 3 against losses 2 and 1: the second is best, with probability 3/4. Correctness has no weight."""
    best = losses.ranking_loss(as_row([0.0, LN3]), as_row([2.0, 1.0]), None)
    assert best.tolist() == [pytest.approx(math.log(4 / 3))]
    answers, batch = make_answers(3), random_batch(5)
    params = LATENT_PRESETS["brief"].loss.model_copy(update={"diversity": 0.0})
    loss, parts = losses.total_loss(*answers, batch, params, progress=0.5)
    losses_BK = losses.branch_losses(answers[0], batch.labels_BL)
    assert parts["ranking"].item() == pytest.approx(
        losses.ranking_loss(answers[1], losses_BK, None).mean().item()
    )
    assert loss.item() == pytest.approx((parts["best_of"] + 0.5 * parts["ranking"]).item())


@pytest.mark.parametrize(("tau", "used"), [(0.001, 0.5), (0.5, 0.5), (2.0, 2.0)])
def test_ranking_is_no_sharper_than_its_least_temperature(tau, used):
    """At a least temperature of 0.5, a temperature below ranks as 0.5 does; the branches are still
    weighted by the temperature itself.
    """
    answers, batch = make_answers(3), random_batch(5)
    params = PrrLossParams(tau_start=tau, tau_end=tau, ranking_min_tau=0.5)
    _, parts = losses.total_loss(*answers, batch, params, progress=0.5)
    logits_BKLV, scores_BK, _ = answers
    losses_BK = losses.branch_losses(logits_BKLV, batch.labels_BL)
    ranked_B = losses.ranking_loss(scores_BK, losses_BK, torch.full((5,), used))
    assert parts["ranking"].item() == pytest.approx(
        losses.mean_over_real(ranked_B, batch.real_B).item(), rel=1e-5
    )
    assert parts["tau"].item() == pytest.approx(tau)


@pytest.mark.parametrize("params", [OURS, SOFT_MIN], ids=["ours", "soft_min"])
def test_the_loss_of_one_branch(params):
    """K = 1: no ranking, no diversity, no NaN; what is left is l_1 and its correctness."""
    answers, batch = make_answers(1), random_batch(5)
    loss, parts = losses.total_loss(*answers, batch, params, progress=0.5)
    own = losses.branch_losses(answers[0], batch.labels_BL).mean()
    assert loss.item() == pytest.approx((own + 0.5 * parts["correctness"]).item())
