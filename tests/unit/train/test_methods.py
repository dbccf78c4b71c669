"""From params to phases: each param reaches the trainers of the methods that use it; rows that fit into memory."""

import pathlib
from collections.abc import Callable
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer, LlamaConfig

from pipeline_lib.params.train import ONLINE, Method, TrainParams
from pipeline_lib.train.methods import TRAINERS, TrainingRequest
from pipeline_lib.train.phases import Phase, Schedule
from pipeline_lib.train.phases import _settings as settings_of
from pipeline_lib.train.trainer_settings import fitting_rows, longest_row, silence_libraries
from pipeline_lib.train.weights.policies import Policy, load_policy

ALL = frozenset(Method)
BASIS = {"steps": 4, "batch_size": 4, "group_size": 4, "checkpoint_every": 2, "lr": 1e-3}
USES: dict[str, tuple[frozenset[Method], Any]] = {
    "variant": (frozenset({Method.GRPO}), "gspo"),
    "advantage": (ONLINE, "gdpo"),
    "lr": (ALL, 2e-3),
    "steps": (ALL, 5),
    "batch_size": (ALL, 8),
    "micro_batch_size": (ALL, 2),
    "gradient_checkpointing": (ALL, True),
    "warmup_fraction": (ALL, 0.5),
    "group_size": (ONLINE, 2),
    "updates_per_rollout": (ONLINE, 2),
    "entropy_coef": (ONLINE, 0.3),
    "warm_start_steps": (ONLINE, 3),
    "warm_start_batch_size": (ONLINE, 8),
    "warm_start_lr": (ONLINE, 3e-3),
    "dpo_beta": (frozenset({Method.DPO}), 0.3),
    "checkpoint_every": (ALL, 3),
    "lora": (ALL, {"enabled": True, "rank": 4}),
    "ppo": (frozenset({Method.PPO}), {"value_lr": 0.1}),
}
"""For each param the methods that use it, and a value other than that of the basis."""
SHARED = {
    *("micro_batch_size", "gradient_checkpointing", "warmup_fraction", "checkpoint_every", "lora")
}
"""Params that a warm start shares with the last phase."""
ELSEWHERE = {
    "method",
    "threads",
    "rollouts",
    "control",
    "rewards",
    "code_digest",
    "processes",
    "sharding",
    "max_logprob_gap",
}
"""Params with an effect other than on a trainer's arguments."""

TrainerArguments = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def trainer_arguments(
    request_for: Callable[..., TrainingRequest], rows: list[Any], tmp_path: pathlib.Path
) -> TrainerArguments:
    """Arguments of the trainers of a training, phase by phase."""

    def of_phases(method: Method, **train: Any) -> list[dict[str, Any]]:
        train = BASIS | {"entropy_coef": 0, "warm_start_steps": 4} | train
        few = {"rows": rows[:2], "warm_start_rows": rows[:2]}
        request = request_for(method, tmp_path / "out", train=train, **few)
        with ExitStack() as stack, silence_libraries():
            return [
                capture_arguments(phase, request.base, tmp_path)
                for phase in TRAINERS[method](request, stack)
            ]

    return of_phases


def capture_arguments(phase: Any, base: str, work: pathlib.Path) -> dict[str, Any]:
    policy = load_policy(base)
    settings = settings_of(phase, policy, work, 1) | {"report_to": "none"}
    trainer = phase.make_trainer(policy, settings)
    adapters, of_ppo = getattr(trainer.model, "peft_config", {}), getattr(trainer, "_params", None)
    return {
        "phase": phase.name,
        "args": trainer.args.to_dict(),
        "adapters": [(one.r, one.lora_alpha) for one in adapters.values()],
        "advantage": getattr(trainer, "_advantage_rule", None),
        "ppo": of_ppo and (of_ppo.ppo, of_ppo.updates_per_rollout, of_ppo.entropy_coef),
        "paths in a pass": getattr(trainer, "_pass_size", None),
    }


def test_every_param_of_a_training_is_listed():
    """A new param needs a line in USES or ELSEWHERE."""
    assert USES.keys() | ELSEWHERE == TrainParams.model_fields.keys()


@pytest.mark.parametrize("method", list(Method))
def test_every_param_reaches_the_trainers_that_use_it(method, trainer_arguments):
    """Another value of a param changes the trainers' arguments: in the warm start, in the last phase,
    or in both.
    """
    basis = trainer_arguments(method)
    last = len(basis) - 1
    for name, (methods, value) in USES.items():
        if method not in methods:
            continue
        expected = [0] if name.startswith("warm_start") else [last]
        phases = trainer_arguments(method, **{name: value})
        changed = [place for place, phase in enumerate(phases) if phase != basis[place]]
        assert changed == (list(range(last + 1)) if name in SHARED else expected), name


@pytest.mark.parametrize("method", list(Method))
def test_rank_and_alpha_of_adapters_are_those_of_the_params(method, trainer_arguments):
    """Rank 3 and alpha 7, in the warm start too."""
    phases = trainer_arguments(method, lora={"enabled": True, "rank": 3, "alpha": 7})
    assert [phase["adapters"] for phase in phases] == [[(3, 7)]] * (2 if method in ONLINE else 1)


def test_a_draw_of_several_updates_is_checkpointed_at_its_end(trainer_arguments):
    """checkpoint_every=2: every 3 steps with draws of 3 updates, every 2 with draws of 1."""
    [_, online] = trainer_arguments(Method.GRPO, updates_per_rollout=3)
    assert online["args"]["save_steps"] == 3
    assert trainer_arguments(Method.GRPO)[1]["args"]["save_steps"] == 2


SMOL = LlamaConfig(hidden_size=576, num_hidden_layers=30, num_attention_heads=9, vocab_size=49152)
TINY = LlamaConfig(hidden_size=128, num_hidden_layers=4, num_attention_heads=4, vocab_size=300)
on_a_cpu = pytest.mark.skipif(torch.cuda.is_available(), reason="another amount of memory")


@on_a_cpu
def test_a_small_model_takes_the_whole_batch():
    """The policy of the demo, with 64 rows of 60 tokens."""
    assert fitting_rows(TINY, batch_size=64, row_tokens=60) == 64


@on_a_cpu
def test_a_real_model_takes_less():
    """64 rows of 250 tokens of a model of 135 million weights need 39 GB by the estimate: 2 rows fit. The
    number divides the batch; checkpointing makes room for more; one row is the least.
    """
    assert fitting_rows(SMOL, batch_size=64, row_tokens=250) == 2
    assert fitting_rows(SMOL, batch_size=9, row_tokens=250) == 3
    assert fitting_rows(SMOL, batch_size=64, row_tokens=250, checkpointing=True) == 8
    assert fitting_rows(SMOL, batch_size=7, row_tokens=8000) == 1


def test_activations_are_computed_again_where_a_gpu_has_no_room(monkeypatch, tmp_path):
    """Half of the free memory is for activations; with room for eight rows nothing is computed twice."""
    for room, again, micro in ((80 << 30, False, 64), (12 << 30, False, 8), (4 << 30, True, 8)):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda free=room: (free, 80 << 30))
        schedule = Schedule(steps=1, lr=1e-3, batch_size=64, checkpoint_every=1)
        phase = Phase(
            name="sft",
            schedule=schedule,
            make_trainer=lambda _policy, settings: settings,
            row_tokens=lambda _tokenizer: 250,
        )
        policy = Policy(model=SimpleNamespace(config=SMOL), tokenizer=None, source="")
        settings = settings_of(phase, policy, tmp_path, 1)
        assert settings["gradient_checkpointing"] is again
        assert settings["per_device_train_batch_size"] == micro


def test_the_longest_row(base: pathlib.Path):
    """Tokens of both texts and an end token."""
    tokenizer = AutoTokenizer.from_pretrained(base)
    rows = [
        {"prompt": "1,2=3\n", "completion": "1+2=3"},
        {"prompt": "1,2,4=7\n", "completion": "1+2=3\n3+4=7"},
    ]
    longest = sum(len(tokenizer.encode(text)) for text in rows[1].values()) + 1
    assert longest_row(rows, tokenizer, "completion") == longest
    assert longest_row(rows, tokenizer) < longest
