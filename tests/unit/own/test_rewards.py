"""Rewards of the user: groups, columns and verdicts that they are given, and what is no reward."""

import logging
import pathlib
from contextlib import ExitStack

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.own import own_gold
from pipeline_lib.params.paths import OwnLimits, VerifyParams
from pipeline_lib.params.train import RewardParams
from pipeline_lib.records import Problem
from pipeline_lib.train.online.own_rewards import own_rewards
from pipeline_lib.verify.dispatch import open_verifier

FOLDER = pathlib.Path(__file__).parent
VERIFY = VerifyParams(verifier=f"{FOLDER / 'hostile.py'}:verify", own=OwnLimits(timeout_s=30.0))
MINE = RewardParams(name="mine", function=f"{FOLDER / 'rewards_of_mine.py'}:reward", weight=0.5)


def problem(question):
    return Problem(
        id=question, question=question, gold=own_gold("4"), source="s", columns={"level": 10}
    )


def rewarded(questions, texts, failed=None, listed=(MINE,)):
    """The rewards of each function, and the metrics."""
    problems = {one: problem(one) for one in questions}
    metrics = {}
    with open_verifier(VERIFY) as verifier, ExitStack() as stack:
        found = own_rewards(
            listed,
            lambda *, completions, **_: [0.0] * len(completions),
            problems,
            verifier,
            VERIFY.own,
            stack,
        )
        rewards = [
            one(
                completions=texts,
                problem_id=questions,
                failed=failed,
                log_metric=metrics.__setitem__,
                trainer_state=None,
            )
            for one in found.functions
        ]
    assert found.weights == [one.weight for one in listed]
    return rewards, metrics


def test_a_reward_has_problems_verdicts_and_columns():
    """Right texts have 10 less their length; a failed path has no reward, beside the verified one."""
    questions, texts = ["a", "a", "b", "b"], ["4", "five", "4", "4"]
    rewards, metrics = rewarded(
        questions,
        texts,
        failed=[False, False, False, True],
        listed=(RewardParams(name="verified"), MINE),
    )
    assert rewards == [[0.0] * 4, [9.0, -4.0, 9.0, None]]
    assert metrics == {"rewards/mine/not_scored": 0.0}


@pytest.mark.parametrize(
    ("question", "expected", "cause"),
    [
        ("raise", [None, None], "KeyError: 'no' (rewards_of_mine.py:7)"),
        ("crash", [None, None], "its process died"),
        ("short", [None, None], "no list of 2 rewards"),
        ("number", [None, None], "no list of 2 rewards"),
        ("nan", [None, 2.0], "returned nan"),
        ("word", [None, 2.0], "returned 'much'"),
    ],
)
def test_no_reward(caplog, question, expected, cause):
    """None with its cause in the log; the other group has its rewards."""
    caplog.set_level(logging.WARNING)
    [rewards], metrics = rewarded([question, question, "a"], ["4", "4", "4"])
    assert rewards == [*expected, 9.0]
    assert cause in caplog.text
    assert metrics["rewards/mine/not_scored"] == pytest.approx(expected.count(None) / 3)


def test_none_is_no_fault(caplog):
    caplog.set_level(logging.WARNING)
    [rewards], _ = rewarded(["none", "none"], ["4", "4"])
    assert rewards == [None, 2.0]
    assert not caplog.records


def test_an_unknown_function():
    with pytest.raises(BadInputError, match=r"train.rewards.function=x.py: no such"):
        rewarded(["a"], ["4"], listed=(RewardParams(name="x", function="x.py:reward"),))
