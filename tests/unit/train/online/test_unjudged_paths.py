"""Paths without a verdict do not change the policy; reward functions are called alike by all trainers."""

import pathlib
from typing import Any

import pytest
from transformers import AutoModelForCausalLM

from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.paths import MathLimits, VerifyParams
from pipeline_lib.params.train import Method, TrainParams
from pipeline_lib.train.methods import train_policy
from pipeline_lib.train.online.grpo import trainer_factory
from pipeline_lib.train.online.live_rollouts import LiveRollouts
from pipeline_lib.train.online.rewards import Rewards, make_verified_reward
from pipeline_lib.train.online.rollouts import make_rollout_func
from pipeline_lib.train.phases import Phase, Row, Schedule, TrainContext, run_phase
from pipeline_lib.verdicts import Status, Verdict
from pipeline_lib.verify.dispatch import open_verifier

GOLDS = {
    "math": MathGold(answer="x^2-1"),
    "unreadable": MathGold(answer="\\frac{"),
    "broken": CountdownGold(numbers=None, target=5),
}
COMPLETIONS = [
    ("math", "\\boxed{(x-1)(x+1)}", 1.0),
    ("math", "\\boxed{x}", 0.0),
    ("math", "\\boxed{\\int_0^1 (x+y+z+w+a+b+c)^{60} dx}", None),
    ("unreadable", "\\boxed{x}", None),
    ("broken", "3+2=5", None),
    ("math", "no answer", 0.0),
]


def test_rewards_of_a_real_verifier():
    """Right is 1, wrong is 0; a comparison without end, a bad gold and a verifier's bug are None."""
    limits = VerifyParams(math=MathLimits(soft_timeout_s=0.5, hard_timeout_s=30.0))
    names, texts, expected = zip(*COMPLETIONS, strict=True)
    with open_verifier(limits) as verifier:
        rewards = make_verified_reward(GOLDS, verifier)(completions=texts, problem_id=names)
    assert rewards == list(expected)


class HalfTheTexts:
    """A verifier that judges texts of even length right, and all others ``otherwise``."""

    def __init__(self, otherwise: Verdict) -> None:
        self.otherwise = otherwise
        self.found: list[bool | None] = []

    def judge(self, items):
        right = Verdict(status=Status.CORRECT, strict=True, lenient=True)
        verdicts = [self.otherwise if len(item.text) % 2 else right for item in items]
        self.found += [verdict.strict for verdict in verdicts]
        return verdicts


def changes_weights(
    verifier: HalfTheTexts, base: pathlib.Path, rows: list[Row], work: pathlib.Path
) -> bool:
    """True if two steps of GRPO with these verdicts change any weight."""
    live = LiveRollouts(decoding=Decoding(max_new_tokens=64), seed=5)
    reward = make_verified_reward({row["problem_id"]: GOLDS["math"] for row in rows}, verifier)
    make_trainer = trainer_factory(
        rows,
        TrainParams(method=Method.GRPO, group_size=4),
        rewards=Rewards(functions=[reward], weights=[1.0]),
        make_rollouts=lambda _source: make_rollout_func(live),
        max_new_tokens=64,
    )
    schedule = Schedule(
        steps=2,
        lr=0.01,
        batch_size=16,
        micro_batch_size=16,
        checkpoint_every=2,
    )
    phase = Phase(name="grpo", schedule=schedule, make_trainer=make_trainer)
    context = TrainContext(work=work, key="key", seed=5, threads=1)
    trained = run_phase(phase, str(base), context)
    before = AutoModelForCausalLM.from_pretrained(base).state_dict()
    after = AutoModelForCausalLM.from_pretrained(trained).state_dict()
    return not all(before[name].equal(after[name]) for name in before)


def test_an_unjudged_path_is_not_a_wrong_one(base, rows, tmp_path: pathlib.Path):
    """Rewards 1, 1, None, 1 are equal and change no weight; 1, 1, 0, 1 are not, and do."""
    failed = Verdict(status=Status.VERIFIER_ERROR, strict=None, lenient=None)
    wrong = Verdict(status=Status.WRONG, strict=False, lenient=False)
    unjudged, judged = HalfTheTexts(failed), HalfTheTexts(wrong)
    assert not changes_weights(unjudged, base, rows, tmp_path / "failed")
    assert changes_weights(judged, base, rows, tmp_path / "wrong")
    assert {True, None} == set(unjudged.found)
    assert {True, False} == set(judged.found)


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
    """All but `log_extra`, which fills a table of completions that PPO does not have, and a column for TRL's log."""
    [of_trl, of_ppo] = [
        calls_of(method, request_for, tmp_path)[0][0].keys() for method in (Method.GRPO, Method.PPO)
    ]
    assert of_trl - of_ppo == {"log_extra", "branch_tokens"}
    assert of_ppo <= of_trl
