"""Noise of latents: a row of a batch has the stream of its own generator."""

import torch

from pipeline_lib.systems.prr.model.numerics import gaussian

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
