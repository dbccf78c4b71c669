"""PPO on fixed paths, with rewards that need no verifier."""

import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pipeline_lib.params.train import LoraParams, Method, PpoParams, TrainParams
from pipeline_lib.train.online.rollouts import DrawnPath, PathSource
from pipeline_lib.train.phases import Phase, Schedule
from pipeline_lib.train.phases import _settings as settings_of
from pipeline_lib.train.ppo.trainer import PpoTrainer, trainer_factory
from pipeline_lib.train.weights.policies import load_policy


class GivenPaths:
    """Returns the same paths at every step. Implements PathSource."""

    def __init__(self, paths: Sequence[DrawnPath]) -> None:
        self.paths = paths

    def draw(self, prompts, **_: Any) -> list[DrawnPath]:
        assert len(prompts) == len(self.paths)
        return list(self.paths)


def params_of(
    *,
    group_size: int,
    updates: int = 1,
    entropy_coef: float = 0.0,
    lora: bool = False,
    **params: Any,
) -> TrainParams:
    """The params of a step with one minibatch; keywords are fields of PpoParams."""
    return TrainParams(
        method=Method.PPO,
        ppo=PpoParams(**({"minibatches": 1} | params)),
        group_size=group_size,
        updates_per_rollout=updates,
        entropy_coef=entropy_coef,
        lora=LoraParams(enabled=lora, rank=4),
    )


def phase_of(
    rows: Sequence[Any], *, reward: Any, source: PathSource, params: TrainParams, **schedule: Any
) -> Phase:
    """A phase of PPO; keywords are fields of Schedule."""
    values: dict[str, Any] = {
        "steps": 2,
        "lr": 1e-2,
        "batch_size": params.group_size,
        "micro_batch_size": params.group_size,
        "shape": "constant",
        "warmup_fraction": 0.0,
        "checkpoint_every": 100,
    }
    make = trainer_factory(rows, params, reward=reward, source_of=lambda _: source)
    return Phase(name="ppo", schedule=Schedule(**(values | schedule)), make_trainer=make)


@pytest.fixture
def trainer_of(base: pathlib.Path, tmp_path: pathlib.Path) -> Callable[..., PpoTrainer]:
    """Makes a trainer of the tiny base policy on fixed paths; the test calls the step."""

    def make(
        paths: Sequence[DrawnPath],
        rewards: Sequence[float | None],
        *,
        micro_batch_size: int | None = None,
        **params: Any,
    ) -> PpoTrainer:
        phase = phase_of(
            [{"prompt": "2,3=5\n", "problem_id": "p"}],
            reward=lambda **_: list(rewards),
            source=GivenPaths(paths),
            params=params_of(group_size=len(paths), **params),
            micro_batch_size=micro_batch_size or len(paths),
        )
        policy = load_policy(str(base))
        trainer = phase.make_trainer(policy, settings_of(phase, policy, tmp_path / "work", 1))
        assert isinstance(trainer, PpoTrainer)
        return trainer

    return make
