"""Advantage rules: hand-worked numbers, and laws that hold for all rules.

`tests/unit/train/online/test_group_advantages.py` compares them with TRL's own computation.
"""

import math
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.errors import BadInputError
from pipeline_lib.train.advantages.gdpo import gdpo
from pipeline_lib.train.advantages.prefixes import prefix_advantages
from pipeline_lib.train.advantages.rules import RULES, compute_advantages, find_rule

NONE = math.nan
HALF_RIGHT = [1.0, 0.0, 0.0, 1.0]


def advantages(name: str, groups: list[list[float]]) -> list[list[float]]:
    """Advantages of groups of rewards with one part."""
    return compute_advantages(find_rule(name), torch.tensor(groups)[..., None]).tolist()


@pytest.mark.parametrize(
    ("name", "rewards", "expected"),
    [
        # mean 1/2
        ("dr_grpo", HALF_RIGHT, [0.5, -0.5, -0.5, 0.5]),
        # std sqrt(4 x 1/4 / 3) = 0.57735; 0.5 / 0.57745 = 0.86588
        ("grpo", HALF_RIGHT, [0.86588, -0.86588, -0.86588, 0.86588]),
        # the others of a right path: 0, 0, 1; those of a wrong one: 1, 0, 1
        ("rloo", HALF_RIGHT, [2 / 3, -2 / 3, -2 / 3, 2 / 3]),
        # as grpo, and again by the batch: mean 0, std 0.86588 sqrt(4 / 3) = 0.99983
        ("gdpo", HALF_RIGHT, [0.86594, -0.86594, -0.86594, 0.86594]),
        # of the three scores the mean is 1/3 and the std sqrt((4/9 + 1/9 + 1/9) / 2) = 0.57735
        ("dr_grpo", [1.0, 0.0, NONE, 0.0], [2 / 3, -1 / 3, 0.0, -1 / 3]),
        ("grpo", [1.0, 0.0, NONE, 0.0], [1.15450, -0.57725, 0.0, -0.57725]),
        ("rloo", [1.0, 0.0, NONE, 0.0], [1.0, -0.5, 0.0, -0.5]),
    ],
)
def test_one_group_by_hand(name, rewards, expected):
    """A path without a score gets 0 and does not enter means."""
    assert advantages(name, [rewards])[0] == pytest.approx(expected, abs=2e-5)


def test_parts_of_a_reward_keep_their_own_scale_in_gdpo():
    """Parts (1, 3) and (0, 1): deviations of 1/2 and 1 are both 0.7071 of their std.

    Their sums are 1.4142 and -1.4142, with a std of 2 over the batch: 0.7071. By the sum of the parts,
    4 and 1, the second part would count twice as much.
    """
    rewards_PNK = torch.tensor([[[1.0, 3.0], [0.0, 1.0]]])
    [found] = compute_advantages(find_rule("gdpo"), rewards_PNK).tolist()
    assert found == pytest.approx([0.7071, -0.7071], abs=2e-4)
    [summed] = compute_advantages(find_rule("dr_grpo"), rewards_PNK).tolist()
    assert summed == [1.5, -1.5]


def test_weights_of_parts_in_gdpo():
    """Two groups with parts (1, 0), (0, 1) and (1, none), (0, none), weights 1 and 1/2.

    Standardized, a part deviates by 0.7071: the sums are +-0.7071 (1 - 1/2) = +-0.35355, and +-0.7071 since a
    missing part adds nothing. Over the batch their std is sqrt((2/8 + 2/2) / 3) = 0.6455.
    """
    rewards_PNK = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[1.0, NONE], [0.0, NONE]]])
    found = gdpo(rewards_PNK, weights_K=[1.0, 0.5]).flatten().tolist()
    assert found == pytest.approx([0.5477, -0.5477, 1.0954, -1.0954], abs=5e-4)


def test_a_part_without_a_score_counts_as_zero_beside_others():
    """Parts (1, none) and (none, none): the first path's reward is 1, the second has none."""
    rewards_PNK = torch.tensor([[[1.0, NONE], [NONE, NONE], [0.0, 0.0]]])
    assert compute_advantages(find_rule("dr_grpo"), rewards_PNK).tolist() == [[0.5, 0.0, -0.5]]


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize(
    "rewards",
    [[1.0] * 4, [0.0] * 4, [NONE, 1.0, NONE, NONE], [NONE] * 4],
    ids=["all right", "all wrong", "one score", "no score"],
)
def test_a_group_of_equal_or_single_scores_has_advantages_of_exactly_zero(name, rewards):
    """Exactly, since a gradient is computed for every other value."""
    assert advantages(name, [rewards]) == [[0.0] * 4]


rewards = st.one_of(st.just(NONE), st.integers(-8, 8).map(lambda quarters: quarters / 4))


@pytest.mark.parametrize("name", ["dr_grpo", "grpo", "rloo"])
@given(groups=st.lists(st.lists(rewards, min_size=4, max_size=4), min_size=1, max_size=4))
def test_groups_are_independent_and_sum_to_zero(name, groups):
    """The advantages of a group do not depend on other groups, and their sum is 0."""
    found = advantages(name, groups)
    assert found == [advantages(name, [group])[0] for group in groups]
    assert [sum(group) for group in found] == pytest.approx([0.0] * len(groups), abs=1e-3)


def test_an_unknown_rule_is_refused():
    """The message lists the known rules."""
    with pytest.raises(BadInputError, match="advantage=mean is unknown; known rules are dr_grpo"):
        find_rule("mean")


def test_rules_are_importable_without_torch():
    """Commands that must start fast check params."""
    check = (
        "import sys, pipeline_lib.train.advantages.rules, pipeline_lib.params_file\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", check], check=True)


def test_tokens_of_prefixes_have_the_mean_of_their_advantages():
    """Advantages 1 of the path, 2 and 4 of its beginnings of 1 and 3 tokens: (2 + 4) / 2, 4, 4, and 1 behind them.

    The second path has no prefix with any token.
    """
    found = prefix_advantages(
        torch.tensor([[1.0, 2.0, 4.0], [-1.0, 5.0, 5.0]]), torch.tensor([[1, 3], [0, 0]]), width=4
    )
    assert found.tolist() == [[3.0, 4.0, 4.0, 1.0], [-1.0] * 4]
