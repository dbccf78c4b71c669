"""Each method optimizes its objective on a policy of a few thousand weights."""

import pathlib

import pytest

from pipeline_lib.engines.chat_model import Decoding, Request
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.params.train import Method, Variant
from pipeline_lib.records import FinishReason
from pipeline_lib.train.methods import train_policy

RIGHT, WRONG = "2+2=4", "2*2=5"


def shares(folder: pathlib.Path, prompt: str) -> dict[str, float]:
    """Share of each text among 64 paths; truncated ones count under ''."""
    engine = EmbeddedEngine.load(str(folder), batch_size=64)
    request = Request(prompt=prompt, seeds=range(64))
    paths = engine.complete([request], Decoding(max_new_tokens=8))[0]
    texts = [path.text if path.finish_reason is FinishReason.STOP else "" for path in paths]
    return {text: texts.count(text) / 64 for text in {*texts, RIGHT, WRONG}}


def test_sft_learns_the_texts_and_to_end(half_right: pathlib.Path, half_solved):
    """Two rows of equal weight: both are drawn often, and hardly anything else."""
    found = shares(half_right, half_solved["rows"][0]["prompt"])
    assert found[RIGHT] + found[WRONG] >= 0.9
    assert min(found[RIGHT], found[WRONG]) >= 0.25


TRAININGS = {
    "dpo": (Method.DPO, {"lr": 1e-4}),
    "grpo": (Method.GRPO, {"lr": 2e-3}),
    "rloo": (Method.RLOO, {"lr": 2e-3}),
    "ppo": (Method.PPO, {"lr": 1e-3}),
    "ppo-lora": (Method.PPO, {"lr": 1e-3, "lora": {"enabled": True}}),
}
VARIANTS = {
    f"grpo as {variant}": (Method.GRPO, {"variant": variant, "lr": 2e-3, "updates_per_rollout": 2})
    for variant in Variant
}


@pytest.mark.parametrize(
    "name", [*TRAININGS, *(pytest.param(name, marks=pytest.mark.slow) for name in VARIANTS)]
)
def test_probability_moves_from_the_wrong_text_to_the_right_one(
    name, half_right, half_solved, request_for, tmp_path
):
    """The ratio of right to wrong paths rises from below 2 to above, by pairs or by rewards."""
    method, train = (TRAININGS | VARIANTS)[name]
    train |= {"steps": 30, "group_size": 8, "warm_start_steps": 0, "entropy_coef": 0}
    train_policy(request_for(method, tmp_path / "out", train=train, **half_solved))
    prompt = half_solved["rows"][0]["prompt"]
    before, after = shares(half_right, prompt), shares(tmp_path / "out", prompt)
    assert before[RIGHT] < 2 * before[WRONG]
    assert after[RIGHT] > 2 * after[WRONG]
    assert after[RIGHT] > before[RIGHT]
