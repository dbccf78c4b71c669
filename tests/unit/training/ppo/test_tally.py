"""Means over tokens that come in parts."""

import torch

from pipeline_lib.training.ppo.tally import Tally


def test_a_mean_is_over_all_tokens_not_over_parts():
    """1 and 2 in one part, 6 in another: 3, not the mean 3.75 of the parts' means."""
    tally = Tally()
    tally.add(torch.tensor([[True, True]]), loss=torch.tensor([[1.0, 2.0]]))
    tally.add(torch.tensor([[True, False]]), loss=torch.tensor([[6.0, 50.0]]))
    assert tally.means() == {"loss": 3.0}
