"""Noise of rows: normal, by the row's seed alone, from CPU generators and from counters on a device."""

import pytest
import torch

from pipeline_lib.latent.model.numerics import DeviceNoise, gaussian, noise_of_rows, philox

CPU = torch.device("cpu")
SOURCES = {"cpu": noise_of_rows, "device": DeviceNoise}
SEEDS = [2**62 + 1, 5, 6]


@pytest.mark.parametrize(
    ("word", "words"),
    [
        (0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (0xFFFFFFFF, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ],
)
def test_philox_equals_its_published_vectors(word, words):
    """Counter and key of equal words; the vectors are those of Random123."""
    found = philox([torch.tensor([word])] * 4, [torch.tensor([word])] * 2)
    assert [f"{int(part):08x}" for part in found] == words.split()


@pytest.mark.parametrize("source", SOURCES)
def test_the_moments_are_those_of_the_normal_distribution(source):
    """Mean, variance, skewness and kurtosis of 600,000 draws within five standard errors; draws are uncorrelated."""
    generator, like = SOURCES[source](SEEDS, CPU), torch.zeros(3, 200_001)
    first, second = gaussian(like, generator).double(), gaussian(like, generator).double()
    count = first.numel()
    for power, expected, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        error = (variance / count) ** 0.5
        assert abs(float((first**power).mean()) - expected) < 5 * error
    for one, other in ((first, second), (first[0], first[1]), (first[:, 1:], first[:, :-1])):
        assert abs(float((one * other).mean())) < 5 / one.numel() ** 0.5


@pytest.mark.parametrize("source", SOURCES)
def test_a_row_depends_on_its_seed_and_the_number_of_the_draw(source):
    """Not on the batch; noise has the shape and dtype of what it is for."""
    like = torch.zeros(3, 4, 7, dtype=torch.bfloat16)
    together, alone = SOURCES[source](SEEDS, CPU), SOURCES[source](SEEDS[1:2], CPU)
    for _ in range(3):
        found = gaussian(like, together)
        assert (found.shape, found.dtype) == (like.shape, like.dtype)
        assert torch.equal(found[1:2], gaussian(like[:1], alone))


def test_a_cpu_has_the_stream_of_its_generators():
    """The numbers of evaluations so far."""
    found = gaussian(torch.zeros(1, 5), noise_of_rows([7], CPU))
    assert torch.equal(found[0], torch.randn(5, generator=torch.Generator().manual_seed(7)))
