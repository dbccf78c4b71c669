"""Paths as tensors: padding, parts of a batch, trainable paths and metrics of a draw."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.train.advantages.rules import find_rule
from pipeline_lib.train.online.rollouts import DrawnPath
from pipeline_lib.train.ppo.path_batch import (
    PathBatch,
    TokenPath,
    collate,
    draw_metrics,
    select_trainable,
)

ids = st.lists(st.integers(1, 9), min_size=1, max_size=5)
paths = st.lists(
    st.builds(TokenPath, prompt_ids=ids, completion_ids=ids, outcome=st.floats(0, 1, width=32)),
    min_size=1,
    max_size=5,
)


def batch_of(some: list[TokenPath]) -> PathBatch:
    return collate(some, pad_id=0, device=torch.device("cpu"))


def test_two_paths_by_hand():
    """Prompts 1 2 and 3, completions 4 and 5 6, padded with 0 on the outer sides."""
    batch = batch_of(
        [
            TokenPath(prompt_ids=[1, 2], completion_ids=[4], outcome=1.0),
            TokenPath(prompt_ids=[3], completion_ids=[5, 6], outcome=0.0),
        ]
    )
    assert batch.tokens_BS.tolist() == [[1, 2, 4, 0], [0, 3, 5, 6]]
    assert batch.mask_BT.tolist() == [[True, False], [True, True]]
    assert batch.completions.tolist() == [[4, 0], [5, 6]]
    inputs = batch.model_inputs()
    assert inputs["attention_mask"].tolist() == [[1, 1, 1, 1], [0, 1, 1, 1]]
    assert inputs["position_ids"].tolist() == [[0, 1, 2, 3], [0, 0, 1, 2]]


@given(paths, st.data())
def test_a_part_equals_the_batch_of_its_paths(all_paths, data):
    """For any paths in any order; columns that are padding in all of them are dropped."""
    places = data.draw(
        st.lists(st.integers(0, len(all_paths) - 1), min_size=1, max_size=5), label="places"
    )
    part = batch_of(all_paths).part(torch.tensor(places))
    alone = batch_of([all_paths[place] for place in places])
    for name in PathBatch.__dataclass_fields__:
        assert torch.equal(getattr(part, name), getattr(alone, name)), name


@given(paths, st.integers(1, 5))
def test_join_inverts_passes(all_paths, size):
    """Every path is in one pass, sorted by length; joined, the passes give the whole batch."""
    batch = batch_of(all_paths)
    passes = batch.passes(size)
    assert all(len(places) <= size for places in passes)
    order = torch.cat(passes).tolist()
    assert sorted(order) == list(range(len(all_paths)))
    lengths = [len(all_paths[place].completion_ids) for place in order]
    assert lengths == sorted(lengths)
    joined_BT = batch.join(passes, [batch.part(places).completions for places in passes])
    assert torch.equal(joined_BT, batch.completions)


END, OTHER_END = 1, 2


def path(*tokens: int, failed: bool = False) -> DrawnPath:
    return DrawnPath(
        prompt_ids=[5], completion_ids=tokens, logprobs=[-1.0] * len(tokens), failed=failed
    )


def test_paths_with_a_reward_are_trained_on():
    """Of four, one is unjudged and one failed; a truncated one keeps its verdict."""
    paths = [path(7, END), path(7, END), path(END, failed=True), path(9, 9, 9, 9)]
    trained = select_trainable(paths, [1.0, None, None, 0.0], rule=None, group_size=4)
    assert [(one.completion_ids, one.outcome) for one in trained] == [
        ((7, END), 1.0),
        ((9, 9, 9, 9), 0.0),
    ]


def test_with_a_rule_the_outcome_of_a_path_is_its_advantage():
    """Rewards 1, 0 and none, and 1, 0, 0: Dr. GRPO subtracts the means 1/2 and 1/3."""
    paths = [path(token, END) for token in range(10, 16)]
    rewards = [1.0, 0.0, None, 1.0, 0.0, 0.0]
    trained = select_trainable(paths, rewards, rule=find_rule("dr_grpo"), group_size=3)
    assert [one.completion_ids[0] for one in trained] == [10, 11, 13, 14, 15]
    expected = [1 / 2, -1 / 2, 2 / 3, -1 / 3, -1 / 3]
    assert [one.outcome for one in trained] == pytest.approx(expected)


def test_metrics_by_hand():
    """Groups (1, 0), (None, 1) and (None, None): two thirds have equal rewards, half is unjudged.

    Five were drawn, of 2, 2, 4, 2 and 2 tokens; one was truncated; there are two end tokens.
    """
    paths = [
        path(7, END),
        path(7, END),
        path(9, 9, 9, 9),
        path(7, OTHER_END),
        path(END, failed=True),
        path(7, END),
    ]
    rewards = [1.0, 0.0, None, 1.0, None, None]
    found = draw_metrics(paths, rewards, end_ids={END, OTHER_END}, group_size=2)
    assert found == pytest.approx(
        {
            "unjudged": 3 / 6,
            "reward": 2 / 3,
            "frac_reward_zero_std": 2 / 3,
            "completions/mean_length": 12 / 5,
            "completions/clipped_ratio": 1 / 5,
        }
    )


def test_a_draw_without_rewards_has_no_mean_reward():
    """A missing reward is not a reward of 0."""
    assert "reward" not in draw_metrics([path(7, END)], [None], end_ids={END}, group_size=1)
