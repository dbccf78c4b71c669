"""Latent models on CUDA in bfloat16, compared with float32 on the CPU."""

import copy
from functools import partial

import pytest
import torch

from pipeline_lib.systems.prr.evaluation.answers import judge_batch
from pipeline_lib.systems.prr.training.run_state import AdamATan2, SignSgd
from tests.unit.systems.prr.small_models import random_batch, small_prr, small_trm

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    "make", [small_prr, small_trm, partial(small_prr, "brief")], ids=["ours", "trm", "brief"]
)
def test_a_training_step_agrees_with_the_cpu(make):
    """With equal weights, rows and noise the losses agree within the error of bfloat16."""
    on_cpu = make()
    on_gpu = copy.deepcopy(on_cpu).to("cuda")
    losses = []
    for model, device in ((on_cpu, "cpu"), (on_gpu, "cuda")):
        output = model.training_step(
            random_batch().to(device),
            carry=None,
            progress=0.5,
            generator=torch.Generator().manual_seed(1),
        )
        output.loss.backward()
        losses.append(output.loss.item())
    assert losses[1] == pytest.approx(losses[0], rel=0.05)
    for (name, here), there in zip(on_cpu.named_parameters(), on_gpu.parameters(), strict=True):
        assert (here.grad is None) == (there.grad is None), name


@pytest.mark.parametrize("make", [small_prr, small_trm], ids=["prr", "trm"])
def test_models_train_and_are_counted_on_a_gpu(make):
    """Both optimizers update their parameters, the carry is passed on, metrics are counted."""
    model, batch = make().to("cuda"), random_batch(padded=2).to("cuda")
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
    assert len(judge_batch(model.predict(batch), batch).right_BK) == 5
