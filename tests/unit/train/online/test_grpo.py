"""Online rewards from verdicts; groups without a signal leave the policy unchanged."""

import pathlib

from transformers import AutoModelForCausalLM

from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.params.train import Method
from pipeline_lib.train.methods import train_policy
from pipeline_lib.train.online.rewards import make_verified_reward
from pipeline_lib.verdicts import Status, Verdict
from pipeline_lib.verify.dispatch import open_verifier

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
