"""PRR: gradients by setting; PRR and TRM: invariances of loss and predictions."""

from functools import partial

import pytest
import torch

from pipeline_lib.systems.prr.model.batches import StepOutput
from pipeline_lib.systems.prr.training.run_state import AdamATan2
from tests.unit.systems.prr.small_models import first_rows, random_batch, small_prr, small_trm


def one_step(model, batch=None, *, seed: int = 3, carry=None) -> StepOutput:
    """A training step with its backward pass."""
    output = model.training_step(
        batch or random_batch(),
        carry=carry,
        progress=0.5,
        generator=torch.Generator().manual_seed(seed),
    )
    output.loss.backward()
    return output


def learns(parameter) -> bool:
    return parameter.grad is not None and bool(parameter.grad.any())


def test_branch_vectors_learn_although_the_first_steps_have_no_gradient():
    """The preset adds b at every step; h gets no gradient, since only the first step uses it."""
    model = small_prr("ours", steps=4, grad_steps=2)
    one_step(model)
    assert learns(model.branches.step_KD)
    assert not learns(model.branches.start_KD)


@pytest.mark.parametrize(("grad_steps", "start_learns"), [(3, False), (4, True)])
def test_starts_learn_only_with_a_gradient_through_all_steps(grad_steps, start_learns):
    """Initial latents get a gradient at G = T = 4, and none at G = 3."""
    model = small_prr("brief", steps=4, grad_steps=grad_steps)
    one_step(model)
    assert learns(model.branches.start_KD) == start_learns


@pytest.mark.parametrize("comm_gradient", [False, True])
def test_communication_teaches_the_scorer_only_with_the_option(comm_gradient):
    """With the scorer's own loss off, only differentiated communication reaches the scorer."""
    model = small_prr(
        "brief", alpha=0.5, comm_gradient=comm_gradient, loss={"scorer": 0.0, "diversity": 0.0}
    )
    one_step(model)
    assert learns(model.scorer.out.weight) == comm_gradient


@pytest.mark.parametrize("comm_gradient", [False, True])
def test_communication_passes_gradients_between_branches_only_with_the_option(comm_gradient):
    """Communication between two steps: gradients flow from branch 0 to branch 1's start."""
    model = small_prr(
        "brief", steps=2, grad_steps=1, comm_interval=1, alpha=0.5, comm_gradient=comm_gradient
    )
    embedded_BSD = model.embedding(random_batch())
    latents_BKSD = model._run_steps(
        model.branches.initial_latents(embedded_BSD), embedded_BSD, steps=2
    )
    latents_BKSD[:, 0, :, 0].sum().backward()
    start_KD = model.branches.start_KD
    assert (start_KD.grad is not None and bool(start_KD.grad[1].any())) == comm_gradient


@pytest.mark.parametrize(("detached", "reaches"), [(True, False), (False, True)])
def test_a_detached_scorer_passes_no_gradient_to_the_latents(detached, reaches):
    """With no weight on the answers, the core gets a gradient only through the scorer."""
    model = small_prr("ours", loss={"detach_scorer": detached})
    torch.nn.init.normal_(model.scorer.out.weight)
    batch = random_batch()
    output = model.training_step(batch, carry=None, progress=0.5, generator=None)
    alone = output.loss - model_loss_without_scorer(model, batch)
    core = list(model.core.parameters())
    gradients = torch.autograd.grad(alone, core, allow_unused=True)
    sizes = [0.0 if gradient is None else gradient.abs().max().item() for gradient in gradients]
    assert (max(sizes) > 1e-5) == reaches


def model_loss_without_scorer(model, batch) -> torch.Tensor:
    """The same step's loss with the scorer's weight at 0, in the same graph of weights."""
    whole = model.loss_params
    model.loss_params = whole.model_copy(update={"scorer": 0.0})
    try:
        return model.training_step(batch, carry=None, progress=0.5, generator=None).loss
    finally:
        model.loss_params = whole


@pytest.mark.parametrize("preset", ["ours", "brief"])
def test_one_branch_trains_without_nan(preset):
    """For the baseline K = 1, loss, gradients and scores are finite."""
    model = small_prr(preset, num_branches=1)
    output = one_step(model)
    assert torch.isfinite(output.loss)
    assert all(
        torch.isfinite(parameter.grad).all()
        for parameter in model.parameters()
        if parameter.grad is not None
    )
    assert torch.isfinite(model.predict(random_batch()).scores_BK).all()


@pytest.mark.parametrize("make", [partial(small_prr, "brief", start_noise=0.0), small_trm])
def test_padded_rows_change_neither_loss_nor_gradients_nor_answers(make):
    """Three padding rows with arbitrary content after five real rows."""
    model = make()
    batch = random_batch(5, padded=3)
    padded = one_step(model, batch)
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    bare = one_step(model, first_rows(batch, 5))
    assert padded.loss.item() == pytest.approx(bare.loss.item(), rel=1e-5)
    assert gradients.keys() == {n for n, p in model.named_parameters() if p.grad is not None}
    for name, parameter in model.named_parameters():
        if name in gradients:
            assert torch.allclose(gradients[name], parameter.grad, atol=1e-5), name
    whole, part = model.predict(batch), model.predict(first_rows(batch, 5))
    assert torch.allclose(whole.logits_BKLV[:5], part.logits_BKLV, atol=1e-5)


@pytest.mark.parametrize("preset", ["ours", "brief"])
def test_predictions_are_equivariant_to_branch_order(preset):
    """Permuted branch vectors give permuted predictions, communication included."""
    model = small_prr(preset, alpha=0.5)
    torch.nn.init.normal_(model.scorer.out.weight)
    before = model.predict(random_batch())
    order = torch.tensor([2, 0, 1])
    with torch.no_grad():
        for vectors_KD in model.branches.parameters():
            vectors_KD.copy_(vectors_KD[order])
    after = model.predict(random_batch())
    assert torch.allclose(after.logits_BKLV, before.logits_BKLV[:, order], atol=1e-4)
    assert torch.allclose(after.scores_BK, before.scores_BK[:, order], atol=1e-4)


def test_prediction_without_noise_is_deterministic():
    """Predictions repeat bitwise; noise on the initial latents is for training only."""
    model = small_prr("brief", start_noise=0.5)
    first, second = model.predict(random_batch()), model.predict(random_batch())
    assert first.logits_BKLV.equal(second.logits_BKLV)
    assert first.scores_BK.equal(second.scores_BK)


def test_starting_noise_makes_training_steps_differ_by_their_generator():
    """Equal seeds repeat a step, others do not; without noise the seed has no effect."""
    noisy, quiet = small_prr("brief"), small_prr("ours")
    assert one_step(noisy, seed=1).loss.equal(one_step(noisy, seed=1).loss)
    assert not one_step(noisy, seed=1).loss.equal(one_step(noisy, seed=2).loss)
    assert one_step(quiet, seed=1).loss.equal(one_step(quiet, seed=2).loss)


@pytest.mark.parametrize("make", [partial(small_prr, num_branches=1), small_trm])
def test_noisy_rollouts_of_one_branch_differ(make):
    """K = 1 with three rollouts gives three answers, reproducible by seed."""
    model, batch = make(), random_batch()

    def drawn(seed: int, noise: float = 0.5) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        return model.predict(batch, noise=noise, rollouts=3, generator=generator).logits_BKLV

    logits_BKLV = drawn(1)
    assert logits_BKLV.shape[:2] == (5, 3)
    assert logits_BKLV.equal(drawn(1))
    assert not logits_BKLV[:, 0].equal(logits_BKLV[:, 1])
    assert not logits_BKLV.equal(drawn(2))
    silent = drawn(1, noise=0.0)
    assert silent[:, 0].equal(silent[:, 2])
    assert silent.equal(drawn(2, noise=0.0))


@pytest.mark.parametrize(("steps", "rollouts"), [(None, 1), (6, 1), (2, 3)])
def test_core_passes_are_counted_correctly(steps, rollouts):
    """Equal to the number of sequences through the core, divided by the rows of the batch."""
    model, seen = small_prr(), []
    model.core.register_forward_hook(lambda _, inputs, __: seen.append(len(inputs[0])))
    output = model.predict(random_batch(), steps=steps, rollouts=rollouts)
    assert output.core_passes == sum(seen) / 5 == 3 * (steps or 4) * rollouts


@pytest.mark.parametrize(("alpha", "checks"), [(0.0, 1), (0.1, 2)])
def test_a_check_of_the_answer_is_part_of_a_pass(alpha, checks):
    """Half a pass per check: one of two layers, at the end and at each communication."""
    model, seen = small_prr(layers=2, scorer_checks=True, alpha=alpha), []
    for block in (*model.core.layers, model.scorer.check.block):
        block.register_forward_hook(lambda _, inputs, __: seen.append(len(inputs[0])))
    output = model.predict(random_batch(), rollouts=2)
    assert output.core_passes == sum(seen) / 5 / 2 == 2 * 3 * (4 + checks / 2)


def test_the_check_does_not_change_gradients_of_the_core():
    """A detached scorer changes no gradient outside of the scorer."""
    gradients = []
    for checks in (True, False):
        torch.manual_seed(0)
        model = small_prr(scorer_checks=checks)
        torch.nn.init.ones_(model.scorer.out.weight)
        if model.scorer.check is not None:
            torch.nn.init.ones_(model.scorer.check.out.weight)
        output = model.training_step(random_batch(), carry=None, progress=0.5, generator=None)
        output.loss.backward()
        learnt = (p for p in model.named_parameters() if p[1].grad is not None)
        gradients.append({name: p.grad for name, p in learnt if "scorer" not in name})
    one, other = gradients
    assert one.keys() == other.keys()
    assert one["embedding.tokens.weight"].abs().sum() > 0
    assert all(gradient.equal(other[name]) for name, gradient in one.items())


@pytest.mark.parametrize(
    ("make", "steps"),
    [(partial(small_prr, "ours"), 25), (partial(small_prr, "brief"), 25), (small_trm, 60)],
)
def test_a_few_steps_learn_a_few_examples(make, steps):
    """On five rows the loss of the best branch falls to less than half."""
    model, carry, seen = make(width=32), None, []
    optimizer = AdamATan2(model.parameters(), lr=5e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        output = one_step(model, carry=carry)
        seen.append(output.parts["best_of"].item())
        carry = output.carry
        optimizer.step()
    assert seen[-1] < seen[0] / 2


@pytest.mark.parametrize("preset", ["ours", "brief"])
def test_bfloat16_answers_and_learns_as_float32_does(preset):
    """bfloat16 on a CPU: scores and losses are close, and the same weights get gradients.

    A cast of a weight made in a step without gradients must not serve the steps that have them, as
    it did in torch until 2.9. Without correctness the gradient of the scorer's bias is a rounding error.
    """
    changes = {"start_noise": 0.0, "loss": {"correctness": 1.0}}
    wide, low = small_prr(preset, **changes), small_prr(preset, precision="bfloat16", **changes)
    low.load_state_dict(wide.state_dict())
    wide_loss, low_loss = one_step(wide).loss, one_step(low).loss
    assert low_loss.item() == pytest.approx(wide_loss.item(), rel=0.05)
    assert low_loss.item() != wide_loss.item()
    for (name, parameter), other in zip(low.named_parameters(), wide.parameters(), strict=True):
        assert learns(parameter) == learns(other), name
    assert low.predict(random_batch()).logits_BKLV.dtype == torch.float32


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch's compiler warns of what it does itself
def test_compiled_blocks_give_the_same_answers():
    """Compiled predictions are close, and weight names are unchanged."""
    plain, compiled = (small_prr(scorer_checks=True, compiled=on) for on in (False, True))
    compiled.load_state_dict(plain.state_dict())
    batch = random_batch()
    assert torch.allclose(
        compiled.predict(batch).logits_BKLV, plain.predict(batch).logits_BKLV, atol=1e-4
    )
    assert torch.allclose(one_step(compiled).loss, one_step(plain).loss, atol=1e-4)
