"""Muon and AdamW as one optimizer."""

import copy

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from pipeline_lib.train.offline.bucketed_sft import make_optimizer


def small_llama() -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return LlamaForCausalLM(config)


def fill_gradients(model, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)


def test_each_parameter_has_its_optimizer():
    """Embeddings and norms move as by AdamW alone, the seven matrices of the layer do not."""
    mixed, plain = small_llama(), small_llama()
    for model, muon_lr in ((mixed, 0.02), (plain, None)):
        optimizer = make_optimizer(model, lr=1e-2, muon_lr=muon_lr)
        fill_gradients(model, 1)
        optimizer.step()
    equal = {
        name: torch.equal(one, other)
        for (name, one), other in zip(mixed.named_parameters(), plain.parameters(), strict=True)
    }
    matrices = {name for name in equal if "proj" in name}
    assert len(matrices) == 7
    assert {name for name, same in equal.items() if not same} == matrices


def test_a_matrix_moves_by_an_orthogonal_step():
    """All singular values of Muon's first step are near 1, times the rate: .7 to 1.2 by Newton-Schulz."""
    model = small_llama()
    weight = model.model.layers[0].self_attn.q_proj.weight
    before = weight.detach().clone()
    optimizer = make_optimizer(model, lr=1e-2, muon_lr=0.5)
    fill_gradients(model, 1)
    optimizer.step()
    values = torch.linalg.svdvals((before - weight).detach() / 0.5)
    assert 0.5 < float(values.min()) <= float(values.max()) < 1.4


def test_a_restored_state_continues_as_before():
    """Two steps, or one step, a copy of the state into a new optimizer, and the second step."""
    whole, parted = small_llama(), small_llama()
    optimizers = [make_optimizer(model, lr=1e-2, muon_lr=0.02) for model in (whole, parted)]
    for model, optimizer in zip((whole, parted), optimizers, strict=True):
        fill_gradients(model, 1)
        optimizer.step()
    state = copy.deepcopy(optimizers[1].state_dict())
    restored = make_optimizer(parted, lr=1e-2, muon_lr=0.02)
    restored.load_state_dict(state)
    for model, optimizer in ((whole, optimizers[0]), (parted, restored)):
        fill_gradients(model, 2)
        optimizer.step()
    for one, other in zip(whole.parameters(), parted.parameters(), strict=True):
        assert torch.equal(one, other)


def test_one_schedule_moves_both_rates():
    """The groups of both are those of the whole, also after a state was restored."""
    optimizer = make_optimizer(small_llama(), lr=1e-2, muon_lr=0.02)
    optimizer.load_state_dict(optimizer.state_dict())
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    assert [group["lr"] for group in optimizer.param_groups] == [0.02, 0.01]
    optimizer.step()
    scheduler.step()
    assert [group["lr"] for group in optimizer.param_groups] == [0.01, 0.005]
    held = optimizer.state_dict()
    assert [held[name]["param_groups"][0]["lr"] for name in ("muon", "adamw")] == [0.01, 0.005]
