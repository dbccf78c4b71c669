"""Rewards of rollouts, by hand."""

import pytest

from pipeline_lib.systems.apr.rl.rewards import RULES, RolloutCounts, reward_of

RIGHT = RolloutCounts(is_right=True, children=6, drawn_tokens=400, critical_tokens=200)


@pytest.mark.parametrize("rule", RULES)
def test_a_wrong_claim_has_no_reward(rule):
    """Whatever it saves."""
    wrong = RolloutCounts(is_right=False, children=0, drawn_tokens=100, critical_tokens=1)
    assert reward_of(wrong, rule=rule, penalty=0.02) == 0


@pytest.mark.parametrize(
    ("rule", "reward"),
    [
        ("binary", 1.0),
        ("speed", 1.1),  # 1 - 200/400 is above 0.2: 1 + 0.5 x 0.2
        ("threads", 0.88),  # 1 - 6 x 0.02
        ("length", 0.92),  # 1 - 4 x 0.02
    ],
)
def test_rewards_of_a_right_claim(rule, reward):
    """Six children, 400 drawn tokens, 200 of them critical."""
    assert reward_of(RIGHT, rule=rule, penalty=0.02) == pytest.approx(reward)


def test_a_small_saving_counts_by_its_share():
    """360 of 400 tokens are critical: 1 + 0.5 x 0.1; a serial rollout has 1."""
    small = RolloutCounts(is_right=True, children=1, drawn_tokens=400, critical_tokens=360)
    serial = RolloutCounts(is_right=True, children=0, drawn_tokens=90, critical_tokens=90)
    assert reward_of(small, rule="speed", penalty=0) == pytest.approx(1.05)
    assert reward_of(serial, rule="speed", penalty=0) == 1


@pytest.mark.parametrize("rule", ["threads", "length"])
def test_a_penalty_leaves_nothing_below_zero(rule):
    """A right claim is never worse than a wrong one."""
    assert reward_of(RIGHT, rule=rule, penalty=10) == 0
