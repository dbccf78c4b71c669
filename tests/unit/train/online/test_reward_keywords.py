"""Reward functions are called alike by TRL's trainers and by PPO, and what they log is kept by all."""

from typing import Any

import pytest

from pipeline_lib.params.train import Method
from pipeline_lib.train.methods import train_policy
from pipeline_lib.train.online.rewards import Rewards

LENGTHS = {"prompts", "completions", "completion_ids", "problem_id", "failed"}
"""Lists with one element for each path."""


class Recorder:
    """A reward of 1 for every second path that keeps its keywords and logs the step."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def make(self, _verified, _verifier) -> Rewards:
        return Rewards(functions=[self.reward], weights=[1.0])

    def reward(self, **keywords: Any) -> list[float | None]:
        self.calls.append({**keywords, "step": keywords["trainer_state"].global_step})
        keywords["log_metric"]("lift", keywords["trainer_state"].global_step + 0.5)
        keywords["log_metric"]("classmate_scores/x", 0.25)
        return [float(place % 2) for place in range(len(keywords["completions"]))]


def calls_of(method: Method, request_for, folder) -> tuple[list[dict[str, Any]], list[dict]]:
    """The calls of a training of two steps of 2 x 4 paths, and the metrics that progress got."""
    recorder, metrics = Recorder(), []
    train = {"steps": 2, "batch_size": 2, "warm_start_steps": 0, "entropy_coef": 0}
    train_policy(
        request_for(
            method,
            folder / method.value,
            train=train,
            make_rewards=recorder.make,
            progress=lambda _step, _total, found: metrics.append(dict(found)),
        )
    )
    return recorder.calls, metrics


@pytest.mark.parametrize("method", [Method.GRPO, Method.RLOO, Method.PPO])
def test_a_reward_gets_step_prompt_and_columns_and_its_figures_are_kept(
    method, request_for, tmp_path
):
    """Two draws of 8 paths, at steps 0 and 1; a figure of a draw is in the metrics of the step it ends."""
    calls, metrics = calls_of(method, request_for, tmp_path)
    assert [call["step"] for call in calls] == [0, 1]
    for call in calls:
        assert {name: len(call[name]) for name in LENGTHS} == dict.fromkeys(LENGTHS, 8)
        assert all(isinstance(text, str) for text in (*call["prompts"], *call["completions"]))
        assert len(set(call["problem_id"][:4])) == 1
    assert [found["lift"] for found in metrics] == [0.5, 1.5]
    assert [found["classmate_scores/x"] for found in metrics] == [0.25, 0.25]
    assert [found["reward"] for found in metrics] == [0.5, 0.5]


def test_ppo_passes_the_keywords_of_trl(request_for, tmp_path):
    """All but `log_extra`, which fills a table of completions that PPO does not have."""
    [of_trl, of_ppo] = [
        calls_of(method, request_for, tmp_path)[0][0].keys() for method in (Method.GRPO, Method.PPO)
    ]
    assert of_trl - of_ppo == {"log_extra"}
    assert of_ppo <= of_trl
