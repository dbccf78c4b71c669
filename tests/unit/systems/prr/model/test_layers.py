"""Blocks of the core: sizes, scales, positions; noise of latents."""

import pytest
import torch

from pipeline_lib.params.prr import PrrModelParams
from pipeline_lib.systems.prr.model.layers import (
    Attention,
    Block,
    SwiGLU,
    gaussian,
    hidden_width,
    linear,
    rms_norm,
    truncated_normal_,
)

SMALL = PrrModelParams(width=16, heads=2, hidden_multiple=8)


def test_rms_norm_by_hand():
    """3 and 4 have mean square 12.5; without a gain they become 3 and 4 over its root."""
    assert rms_norm(torch.tensor([3.0, 4.0])).tolist() == pytest.approx([0.848528, 1.131371])


def test_rms_norm_computes_in_float32_and_keeps_the_dtype():
    """Squares of 300 are infinite in float16, where the result is 1."""
    normed = rms_norm(torch.full((4,), 300.0, dtype=torch.float16))
    assert normed.dtype == torch.float16
    assert normed.tolist() == [1.0] * 4


@pytest.mark.parametrize(
    ("width", "multiple", "hidden"),
    [(512, 256, 1536), (256, 256, 768), (97, 256, 512), (48, 32, 128)],
)
def test_hidden_width(width, multiple, hidden):
    """Two thirds of four times the width, rounded up: 1365 to 1536, 683 to 768, 259 to 512, 128."""
    assert hidden_width(width, expansion=4, multiple=multiple) == hidden


def test_swiglu_by_hand():
    """Gate 2 and value 3 with unit weights: 2 sigmoid(2) x 3."""
    layer = SwiGLU(1, 1)
    with torch.no_grad():
        layer.gate_up.weight.copy_(torch.tensor([[2.0], [3.0]]))
        layer.down.weight.fill_(1.0)
    assert layer(torch.ones(1)).item() == pytest.approx(6 / (1 + 2.718281828**-2))


def test_initialisation_is_truncated_with_the_requested_deviation():
    """The deviation lost by truncation at two deviations is compensated."""
    weight = truncated_normal_(torch.empty(200, 500), std=0.5)
    assert weight.std().item() == pytest.approx(0.5, rel=0.01)
    assert weight.abs().max().item() <= 2 * 0.5 / 0.8796 + 1e-4
    assert linear(400, 300).weight.std().item() == pytest.approx(1 / 20, rel=0.02)


def test_rotary_products_depend_on_relative_position():
    """Products of rotated queries and keys depend on the distance of their positions."""
    attention = Attention(8, heads=1, positions=6)
    same_XNHSC = torch.randn(2, 1, 1, 1, 8).expand(-1, -1, -1, 6, -1)
    queries, keys = attention._rotate(same_XNHSC)
    products_SS = (queries[0, 0] @ keys[0, 0].T).detach()
    for distance in range(-5, 6):
        diagonal = products_SS.diagonal(distance)
        assert torch.allclose(diagonal, diagonal[:1].expand_as(diagonal), atol=1e-4)
    assert not torch.allclose(products_SS.diagonal(0)[:1], products_SS.diagonal(2)[:1], atol=1e-4)


def test_attention_follows_its_formula():
    """softmax(q k / sqrt(C)) v for each head, over all positions, without causal mask."""
    attention = Attention(8, heads=2, positions=5)
    latents_NSD = torch.randn(3, 5, 8)
    heads_XNHSC = attention.qkv(latents_NSD).view(3, 5, 3, 2, 4).permute(2, 0, 3, 1, 4)
    queries, keys = attention._rotate(heads_XNHSC[:2])
    weights = torch.softmax(queries @ keys.transpose(-1, -2) / 2, dim=-1)
    mixed_NSD = (weights @ heads_XNHSC[2]).transpose(1, 2).reshape(3, 5, 8)
    assert torch.allclose(attention(latents_NSD), attention.out(mixed_NSD), atol=1e-5)


@pytest.mark.parametrize("mixer", ["attention", "mlp"])
def test_a_block_leaves_latents_with_unit_mean_square(mixer):
    """Post-norm keeps unit mean square over repeated passes."""
    block = Block(SMALL.model_copy(update={"mixer": mixer}), positions=5)
    latents_NSD = block(100 * torch.randn(2, 5, 16))
    squares = latents_NSD.square().mean(-1)
    assert torch.allclose(squares, torch.ones_like(squares), atol=1e-3)


@pytest.mark.parametrize("mixer", ["attention", "mlp"])
def test_a_block_mixes_positions(mixer):
    """A change at the last position reaches the first."""
    block = Block(SMALL.model_copy(update={"mixer": mixer}), positions=5)
    latents_NSD = torch.randn(1, 5, 16)
    changed_NSD = latents_NSD.clone()
    changed_NSD[0, 4] += 1
    assert not torch.allclose(block(latents_NSD)[0, 0], block(changed_NSD)[0, 0], atol=1e-4)


def test_no_layer_of_the_core_has_a_bias_or_a_gain():
    """All parameters of the core are matrices, as in the published counts."""
    assert all(parameter.ndim == 2 for parameter in Block(SMALL, positions=5).parameters())


SEEDS = [2**62 + 1, 5, 6]


def test_a_row_depends_on_its_seed_and_the_number_of_the_draw():
    """Not on the batch; noise has the shape and dtype of what it is for, and the numbers of torch's generator."""
    like = torch.zeros(3, 4, 7, dtype=torch.bfloat16)
    together = [torch.Generator().manual_seed(seed) for seed in SEEDS]
    alone = torch.Generator().manual_seed(SEEDS[1])
    for _ in range(3):
        found = gaussian(like, together)
        assert (found.shape, found.dtype) == (like.shape, like.dtype)
        assert torch.equal(found[1], torch.randn(4, 7, generator=alone).bfloat16())
