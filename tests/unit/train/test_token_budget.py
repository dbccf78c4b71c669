"""Tokens of a training: hand-worked plans, and counts that agree with them."""

import pathlib

import pytest
from transformers import AutoTokenizer

from pipeline_lib.params.train import Method, TrainParams
from pipeline_lib.store import manifests
from pipeline_lib.store.files import read_json_lines
from pipeline_lib.train.methods import TrainingRequest, train_policy
from pipeline_lib.train.token_budget import Tokens, plan_tokens
from pipeline_lib.train.weights.policies import LOG_NAME, tokens_of

LENGTHS = {"prompt_tokens": 5, "path_tokens": 7}


@pytest.mark.parametrize(
    ("params", "trained", "drawn"),
    [
        # 10 steps of 4 rows of 12 tokens; a pair is two rows.
        ({"method": "sft"}, 480, 0),
        ({"method": "dpo"}, 960, 0),
        # 10 draws of 4 x 2 paths, each trained on once; 3 warm steps of 6 rows.
        ({"method": "grpo"}, 960 + 216, 960),
        ({"method": "rloo", "warm_start_steps": 0}, 960, 960),
        # Each draw is used for 2 steps: half the draws, the same training.
        ({"method": "grpo", "updates_per_rollout": 2}, 960 + 216, 480),
        # A step of PPO draws once and passes over it twice.
        ({"method": "ppo", "updates_per_rollout": 2}, 1920 + 216, 960),
    ],
)
def test_planned_by_hand(params, trained, drawn):
    """12 tokens per row: 5 of the prompt, 7 of the path."""
    shared = {
        "steps": 10,
        "batch_size": 4,
        "group_size": 2,
        "warm_start_steps": 3,
        "warm_start_batch_size": 6,
    }
    planned = plan_tokens(TrainParams(**(shared | params)), **LENGTHS)
    assert planned == Tokens(trained=trained, drawn=drawn)


def test_a_drawn_token_costs_six_tenths_of_a_trained_one():
    """100 + 0.6 x 51 = 130.6, rounded up."""
    assert Tokens(trained=100, drawn=51).cost == 131
    assert (Tokens(trained=1, drawn=2) + Tokens(trained=3, drawn=4)) == Tokens(trained=4, drawn=6)


def length(base: str, *texts: str) -> int:
    """Tokens of ``texts``, each tokenized separately."""
    tokenizer = AutoTokenizer.from_pretrained(base)
    return sum(len(tokenizer.encode(text, add_special_tokens=False)) for text in texts)


def counted(request: TrainingRequest) -> Tokens:
    train_policy(request)
    return tokens_of(manifests.read_manifest(request.output))


def test_supervised_tokens_by_hand(request_for, tmp_path: pathlib.Path, half_solved):
    """6 steps of 4 rows, each a prompt, a completion and an end token; a pair has two such rows."""
    row, base = half_solved["rows"][0], half_solved["base"]
    right = length(base, row["prompt"], row["completion"]) + 1
    wrong = length(base, row["prompt"], row["rejected"]) + 1
    sft = counted(request_for(Method.SFT, tmp_path / "sft", **half_solved))
    assert sft == Tokens(trained=24 * right)
    dpo = counted(request_for(Method.DPO, tmp_path / "dpo", **half_solved))
    assert dpo == Tokens(trained=24 * (right + wrong))


@pytest.mark.parametrize("method", [Method.GRPO, Method.RLOO, Method.PPO])
def test_drawn_tokens_by_the_log(request_for, tmp_path: pathlib.Path, half_solved, method):
    """6 draws of 4 x 4 paths with the mean lengths that the log has, after 2 warm steps of 4 rows."""
    row, base = half_solved["rows"][0], half_solved["base"]
    warm = 8 * (length(base, row["prompt"], row["completion"]) + 1)
    train = {"entropy_coef": 0.0}
    found = counted(request_for(method, tmp_path / "out", train=train, **half_solved))
    log = list(read_json_lines(tmp_path / "out" / LOG_NAME))
    means = [entry["mean_tokens"] for entry in log if entry["phase"] == method.value]
    drawn = sum(16 * (length(base, row["prompt"]) + mean) for mean in means)
    assert len(means) == 6
    assert found.drawn == pytest.approx(drawn)
    assert found.trained == found.drawn + warm
