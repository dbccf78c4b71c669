"""Determinism: the block sets threads, seed and mode, and restores them."""

import torch

from pipeline_lib.determinism import deterministic, trainer_seed


def test_the_block_is_repeatable_and_leaves_the_caller_as_it_was():
    """Two blocks draw the same numbers; generator, threads and mode outside are unchanged."""
    outside = torch.random.get_rng_state()
    threads = torch.get_num_threads()
    drawn = []
    for _ in range(2):
        with deterministic(threads=1, seed=3):
            assert torch.get_num_threads() == 1
            assert torch.are_deterministic_algorithms_enabled()
            drawn.append(torch.rand(4))
    assert torch.equal(*drawn)
    assert torch.equal(outside, torch.random.get_rng_state())
    assert torch.get_num_threads() == threads
    assert not torch.are_deterministic_algorithms_enabled()


def test_trainer_seeds_fit_numpy():
    """numpy takes 32 bits; 200 names give 200 different seeds below 2**32."""
    seeds = {trainer_seed(7, "training", index) for index in range(200)}
    assert len(seeds) == 200
    assert max(seeds) < 2**32
