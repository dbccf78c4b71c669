"""A bandit with a known optimal policy: four arms, each a token, drawn and judged like any path.

With rewards r, reference p and KL coefficient b, the optimum is p exp(r / b), normalized (Rafailov et
al. 2023, arXiv:2305.18290, equation 4); without a KL penalty it is the best arm. Probabilities are
computed from the model, not counted in paths.
"""

import pathlib
from collections.abc import Mapping

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.params.paths import BootstrapParams
from pipeline_lib.params.train import LoraParams
from pipeline_lib.train.bootstrap import save_blank_policy
from pipeline_lib.train.offline import sft
from pipeline_lib.train.online.live_rollouts import LiveRollouts
from pipeline_lib.train.phases import Phase, Schedule, TrainContext, run_phase
from tests.unit.train.ppo.conftest import params_of, phase_of

PROMPT = "7\n"
REWARDS = {"1": 0.0, "2": 0.25, "3": 0.75, "4": 1.0}
COPIES = {"1": 5, "2": 3, "3": 3, "4": 1}
"""Rows of each arm in the reference's training data: the best arm is the rarest."""


@pytest.fixture(scope="module")
def arms(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The reference: a policy that draws one arm and ends, with probabilities as in COPIES."""
    work = tmp_path_factory.mktemp("bandit")
    rows = [{"prompt": PROMPT, "completion": arm} for arm, n in COPIES.items() for _ in range(n)]
    params = BootstrapParams(hidden_size=16, num_layers=1, num_heads=2)
    torch.manual_seed(0)
    save_blank_policy(work / "blank", rows, params)
    schedule = Schedule(
        steps=150,
        lr=1e-2,
        batch_size=12,
        micro_batch_size=12,
        shape="cosine",
        checkpoint_every=1000,
    )
    make_trainer = sft.trainer_factory(rows, lora=LoraParams())
    phase = Phase(name="reference", schedule=schedule, make_trainer=make_trainer)
    return run_phase(phase, str(work / "blank"), context(work))


def context(work: pathlib.Path) -> TrainContext:
    return TrainContext(work=work, key="key", seed=3, threads=1)


@torch.no_grad()
def shares(folder: pathlib.Path) -> dict[str, float]:
    """The probability of each path of an arm and the end token."""
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    prompt = tokenizer(PROMPT)["input_ids"]
    found = {}
    for arm in REWARDS:
        [token] = tokenizer(arm)["input_ids"]
        log_probs_SV = model(torch.tensor([[*prompt, token]])).logits[0].log_softmax(-1)
        logprob = log_probs_SV[-2, token] + log_probs_SV[-1, tokenizer.eos_token_id]
        found[arm] = logprob.exp().item()
    return found


def trained(
    arms: pathlib.Path, work: pathlib.Path, *, steps: int, lr: float, **plan
) -> pathlib.Path:
    """The policy after ``steps`` steps of 64 paths. The reward of a path that is no arm is 0."""
    phase = phase_of(
        [{"prompt": PROMPT, "problem_id": "p"}],
        reward=lambda *, completions, **_: [REWARDS.get(text, 0.0) for text in completions],
        source=LiveRollouts(decoding=Decoding(max_new_tokens=3), seed=11),
        params=params_of(group_size=64, value_lr=1e-2, **plan),
        steps=steps,
        lr=lr,
        shape="cosine",
    )
    return run_phase(phase, str(arms), context(work))


def boltzmann(reference: Mapping[str, float], kl_coef: float) -> dict[str, float]:
    """The optimal policy; paths that are no arm have reward 0."""
    weights = {
        arm: p * torch.tensor(REWARDS[arm] / kl_coef).exp().item() for arm, p in reference.items()
    }
    whole = sum(weights.values()) + 1 - sum(reference.values())
    return {arm: weight / whole for arm, weight in weights.items()}


def test_the_reference_prefers_the_wrong_arms(arms: pathlib.Path):
    """Nearly all mass is on arms, in the shares of the rows: 5, 3, 3 and 1 of 12."""
    found = shares(arms)
    assert sum(found.values()) > 0.9
    for arm, copies in COPIES.items():
        assert found[arm] == pytest.approx(copies / 12, abs=0.05)


def test_ppo_finds_the_best_arm(arms: pathlib.Path, tmp_path: pathlib.Path):
    """Its probability rises from 1/12 to nearly 1 by rewards alone."""
    folder = trained(arms, tmp_path, steps=50, lr=1e-2)
    assert shares(folder)["4"] > 0.95


@pytest.mark.parametrize(
    "options",
    [{"steps": 120}, {"steps": 60, "updates": 2, "minibatches": 2}],
    ids=["once", "again"],
)
def test_with_a_kl_penalty_ppo_finds_the_known_optimum(
    arms: pathlib.Path, tmp_path: pathlib.Path, options: dict[str, int]
):
    """KL coefficient 0.5: arms at shares 5, 3, 3, 1 weigh 5, 3 e^0.5, 3 e^1.5 and e^2."""
    folder = trained(arms, tmp_path, lr=2e-3, kl_coef=0.5, **options)
    start, found = shares(arms), shares(folder)
    best = boltzmann(start, 0.5)
    for arm, share in best.items():
        assert found[arm] == pytest.approx(share, abs=0.03)
    assert max(abs(start[arm] - best[arm]) for arm in best) > 0.15
