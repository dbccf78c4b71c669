"""The latent models on a CUDA device, in its own format, beside the CPU's float32."""

import copy
from functools import partial

import pytest
import torch

from pipeline_lib.latent.evaluation.branch_metrics import counted
from pipeline_lib.latent.training.optimizer import AdamATan2, SignSgd
from tests.unit.latent.small_models import made_batch, made_prr, made_trm

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    "make", [made_prr, made_trm, partial(made_prr, "brief")], ids=["ours", "trm", "brief"]
)
def test_a_training_step_is_that_of_a_cpu(make):
    """The same weights, rows and noise: the losses are those of float32 within bfloat16's error."""
    on_cpu = make()
    on_gpu = copy.deepcopy(on_cpu).to("cuda")
    losses = []
    for model, device in ((on_cpu, "cpu"), (on_gpu, "cuda")):
        output = model.training_step(
            made_batch().to(device),
            carry=None,
            progress=0.5,
            generator=torch.Generator().manual_seed(1),
        )
        output.loss.backward()
        losses.append(output.loss.item())
    assert losses[1] == pytest.approx(losses[0], rel=0.05)
    for (name, here), there in zip(on_cpu.named_parameters(), on_gpu.parameters(), strict=True):
        assert (here.grad is None) == (there.grad is None), name


@pytest.mark.parametrize("make", [made_prr, made_trm], ids=["prr", "trm"])
def test_models_learn_and_are_counted_on_a_gpu(make):
    """Both optimizers move there what they move on a CPU, a carry goes along, counts come back."""
    model, batch = make().to("cuda"), made_batch(padded=2).to("cuda")
    optimizers = (
        AdamATan2(model.parameters(), lr=5e-3, weight_decay=0.1),
        SignSgd(model.embedding.puzzles, lr=1e-2, weight_decay=0.1),
    )
    carry, seen = None, []
    for _ in range(60):
        output = model.training_step(batch, carry=carry, progress=1.0, generator=None)
        output.loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        carry = output.carry
        seen.append(output.parts["best_of"].item())
    assert seen[-1] < seen[0]
    assert model.embedding.puzzles.get_buffer("weight").any()
    assert counted(model.predict(batch), batch).rows == 5
