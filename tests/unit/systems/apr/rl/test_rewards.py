"""Rewards of right claims, by hand."""

import pytest

from pipeline_lib.params.apr import AprRlParams
from pipeline_lib.systems.apr.rl.source import reward_of

SIX = {"children": 6, "drawn_tokens": 400, "critical_tokens": 200}


@pytest.mark.parametrize(
    ("rule", "penalty", "counts", "reward"),
    [
        ("binary", 0.02, SIX, 1.0),
        ("speed", 0.02, SIX, 1.1),  # 1 - 200/400 is above 0.2: 1 + 0.5 x 0.2
        ("speed", 0, SIX | {"critical_tokens": 360}, 1.05),  # 1 + 0.5 x 0.1
        ("speed", 0, SIX | {"critical_tokens": 400}, 1.0),  # a serial rollout saves nothing
        ("threads", 0.02, SIX, 0.88),  # 1 - 6 x 0.02
        ("length", 0.02, SIX, 0.92),  # 1 - 4 x 0.02
        ("threads", 10, SIX, 0),  # never worse than a wrong claim
        ("length", 10, SIX, 0),
    ],
)
def test_rewards_of_a_right_claim(rule, penalty, counts, reward):
    """Six children, 400 drawn tokens, 200 of them critical."""
    rl = AprRlParams(reward=rule, penalty=penalty)
    assert reward_of(rl, **counts) == pytest.approx(reward)
