"""Matrix products in bfloat16 over float32 weights."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from pipeline_lib.engines.embedded.sub_batches import ATTENTION
from pipeline_lib.train.bfloat16_products import bfloat16_products

IDS = torch.arange(24).reshape(2, 12)


@pytest.fixture
def model():
    torch.manual_seed(3)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=32,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
        )
    )


def gradients(model, *, enabled):
    model.zero_grad()
    with bfloat16_products(model, enabled=enabled):
        loss = model(input_ids=IDS, labels=IDS).loss
    loss.backward()
    return torch.cat([one.grad.flatten() for one in model.parameters()])


def test_products_are_rounded_and_weights_are_not(model):
    exact, rounded = gradients(model, enabled=False), gradients(model, enabled=True)
    assert rounded.dtype == torch.float32
    assert not torch.equal(exact, rounded)
    assert (exact - rounded).norm() < 0.05 * exact.norm()


@pytest.mark.parametrize("before", ["sdpa", ATTENTION])
def test_attention_on_a_cpu_is_in_float32(model, monkeypatch, before):
    """Its inputs are float32 in the block, and the model's own attention is back behind it."""
    seen = []
    plain = torch.nn.functional.scaled_dot_product_attention

    def record(query, *others, **options):
        seen.append(query.dtype)
        return plain(query, *others, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", record)
    model.set_attn_implementation(before)
    gradients(model, enabled=True)
    assert seen == [torch.float32] * 2
    assert model.config._attn_implementation == before


def test_attention_is_restored_after_an_error(model):
    with pytest.raises(ZeroDivisionError), bfloat16_products(model, enabled=True):
        raise ZeroDivisionError
    assert model.config._attn_implementation == "sdpa"
