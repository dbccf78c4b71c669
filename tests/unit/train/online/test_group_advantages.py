"""Rewards from verdicts, and the seam between advantage rules and TRL: bit-identical for the rules that TRL has."""

import pathlib
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch
from datasets import Dataset
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.params.train import Method
from pipeline_lib.train.advantages.gdpo import gdpo
from pipeline_lib.train.advantages.rules import AdvantageRule, find_rule
from pipeline_lib.train.methods import train_policy
from pipeline_lib.train.online.rewards import make_verified_reward
from pipeline_lib.train.online.trl_internals import VerifiedGrpoTrainer
from pipeline_lib.train.trainer_settings import silence_libraries
from pipeline_lib.train.weights.policies import load_policy
from pipeline_lib.verdicts import Status, Verdict
from pipeline_lib.verify.dispatch import open_verifier

PROMPT = {"prompt": "2,3=5\n"}
ASK_TRL: dict[str, dict[str, Any]] = {
    "dr_grpo": {"scale_rewards": "none"},
    "grpo": {"scale_rewards": "group"},
    "gdpo": {"multi_objective_aggregation": "normalize_then_sum"},
}
"""TRL's settings for each rule."""


class GivenRewards:
    """Reward functions of K parts, each of which returns its column of ``rewards``."""

    def __init__(self, num_parts: int) -> None:
        self.rewards: list[list[float | None]] = []
        self.functions = [self._part(part) for part in range(num_parts)]

    def _part(self, part: int):
        def reward(**_: Any) -> list[float | None]:
            return [parts[part] for parts in self.rewards]

        reward.__name__ = f"part_{part}"
        return reward


def roll_out(prompts: Sequence[str], trainer: Any) -> dict[str, list[Any]]:
    """One end token for each prompt."""
    count = len(prompts)
    return {
        "prompt_ids": [[5]] * count,
        "completion_ids": [[trainer.processing_class.eos_token_id]] * count,
        "logprobs": [[0.0]] * count,
        "failed": [False] * count,
    }


def trainer_of(
    options: dict[str, Any], rule: AdvantageRule, given: GivenRewards, base, folder
) -> Any:
    """A trainer with the seam, and TRL's config with ``options``."""
    policy = load_policy(str(base))
    return VerifiedGrpoTrainer(
        model=policy.model,
        args=GRPOConfig(
            output_dir=str(folder),
            report_to="none",
            use_cpu=True,
            bf16=False,
            per_device_train_batch_size=8,
            num_generations=4,
            **options,
        ),
        train_dataset=Dataset.from_list([PROMPT] * 8),
        processing_class=policy.tokenizer,
        reward_funcs=given.functions,
        rollout_func=roll_out,
        advantage_rule=rule,
        use_sampling_logprobs=False,
        draws=True,
    )


reward_parts = st.one_of(st.none(), st.sampled_from([0.0, 1.0]), st.floats(-2, 2, width=32))


@st.composite
def draws(draw: st.DrawFn, num_parts: int) -> tuple[int, list[list[float | None]]]:
    """A group size, and the reward parts of one to four groups."""
    size, groups = draw(st.integers(2, 7)), draw(st.integers(1, 4))
    parts = st.lists(reward_parts, min_size=num_parts, max_size=num_parts)
    return size, draw(st.lists(parts, min_size=size * groups, max_size=size * groups))


@pytest.mark.parametrize("num_parts", [1, 2])
@pytest.mark.parametrize("name", ASK_TRL)
def test_each_rule_equals_trl_bit_for_bit(name, num_parts, base: pathlib.Path, tmp_path):
    """Random rewards, some missing, in groups of 2 to 7: TRL's own advantages, without a tolerance.

    The reference is TRL's own method on the same trainer and the same draw.
    """
    rewards = GivenRewards(num_parts)
    with silence_libraries():
        trainer = trainer_of(ASK_TRL[name], find_rule(name), rewards, base, tmp_path)
    compare_with_trl(trainer, rewards)


def test_weighted_parts_equal_trl_bit_for_bit(base: pathlib.Path, tmp_path):
    """As above, for two parts with the weights 1 and 1/3."""
    weights = [1.0, 1 / 3]
    options = {"multi_objective_aggregation": "normalize_then_sum", "reward_weights": weights}
    rewards = GivenRewards(2)
    with silence_libraries():
        rule = partial(gdpo, weights_K=weights)
        trainer = trainer_of(options, rule, rewards, base, tmp_path)
    compare_with_trl(trainer, rewards)


def compare_with_trl(trainer: Any, rewards: GivenRewards) -> None:
    """Random draws by the trainer and by the method of TRL that it overrides."""
    trainer.model.train()

    @settings(max_examples=25, suppress_health_check=[HealthCheck.differing_executors])
    @given(draw=draws(len(rewards.functions)))
    def compare(draw):
        trainer.num_generations, rewards.rewards = draw
        rows = [dict(PROMPT) for _ in rewards.rewards]
        with silence_libraries():
            found = trainer._generate_and_score_completions(rows)["advantages"]
            expected = GRPOTrainer._generate_and_score_completions(trainer, rows)["advantages"]
        assert torch.equal(found, expected)

    compare()


def test_the_seam_groups_the_parts_and_uses_the_result(base: pathlib.Path, tmp_path):
    """A rule that returns the second part: the order of paths is kept, a missing value becomes 0."""
    seen = []

    def second_part(rewards_PNK: torch.Tensor) -> torch.Tensor:
        seen.append(tuple(rewards_PNK.shape))
        return rewards_PNK[..., 1]

    rewards = GivenRewards(2)
    with silence_libraries():
        trainer = trainer_of({}, second_part, rewards, base, tmp_path)
        trainer.model.train()
        rewards.rewards = [[9.0, place] for place in (0.0, 1.0, 2.0, None, 4.0, 5.0, 6.0, 7.0)]
        scored = trainer._generate_and_score_completions([dict(PROMPT) for _ in range(8)])
    assert seen == [(2, 4, 2)]
    assert scored["advantages"].tolist() == [0, 1, 2, 0, 4, 5, 6, 7]


GOLD = CountdownGold(numbers=(2, 3), target=5)


class FailingVerifier:
    """A verifier that always fails internally."""

    def judge(self, items):
        failed = Verdict(status=Status.VERIFIER_ERROR, strict=None, lenient=None)
        return [failed for _ in items]


def test_right_is_one_and_wrong_is_zero():
    """Of three completions for 2, 3 -> 5 only the first is a solution."""
    with open_verifier(VerifyParams()) as verifier:
        reward = make_verified_reward({"p": GOLD}, verifier)
        rewards = reward(completions=["3+2=5", "3*2=6", "five"], problem_id=["p"] * 3, prompts=[])
    assert rewards == [1.0, 0.0, 0.0]


def test_a_verifier_failure_is_no_reward():
    """None, not 0: TRL then leaves the path out of its group."""
    reward = make_verified_reward({"p": GOLD}, FailingVerifier())
    assert reward(completions=["3+2=5"], problem_id=["p"]) == [None]


def test_groups_of_equal_rewards_do_not_change_the_policy(
    base: pathlib.Path, request_for, tmp_path: pathlib.Path
):
    """A barely trained policy solves nothing, so every advantage is 0: no change and no NaN."""
    request = request_for(
        Method.GRPO,
        tmp_path / "out",
        train={"warm_start_steps": 0, "steps": 2, "lr": 0.1, "entropy_coef": 0},
    )
    summary = train_policy(request)
    assert summary.last["reward"] == 0
    assert summary.last["equal_groups"] == 1
    before = AutoModelForCausalLM.from_pretrained(base).state_dict()
    after = AutoModelForCausalLM.from_pretrained(tmp_path / "out").state_dict()
    assert all(before[name].equal(after[name]) for name in before)
