"""A training of six steps on two problems, with peers in this process."""

import pathlib
from collections.abc import Sequence
from typing import Any

from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.engines.pretrained import load_tokenizer
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.params.classmate import ClassmateParams
from pipeline_lib.params.paths import BootstrapParams, VerifyParams
from pipeline_lib.params.train import Method, TrainParams
from pipeline_lib.records import Problem
from pipeline_lib.sampling.prompts import render
from pipeline_lib.systems.classmate.peer import Peer
from pipeline_lib.systems.classmate.peer_engine import PeerEngine
from pipeline_lib.systems.classmate.reward import make_classmate_rewards
from pipeline_lib.train.bootstrap import make_base_policy
from pipeline_lib.train.methods import TrainingRequest, train_policy

TEXTS = {
    9: ("2+3=5\n5+4=9", "3+4=7\n7+2=9", "2*3=6\n6+4=9"),
    24: ("2*3=6\n6*4=24", "3*4=12\n12*2=24", "2+3=5\n5*4=24"),
}
"""By target: two right chains and a wrong one, whose first lines occur for both targets or for one."""
PROBLEMS = [
    Problem(
        id=str(target),
        question=f"{target}",
        gold=CountdownGold(numbers=(2, 3, 4), target=target),
        source="test",
    )
    for target in TEXTS
]
ROWS = [{"prompt": render(problem, None), "problem_id": problem.id} for problem in PROBLEMS]


def make_model(folder: pathlib.Path, *, seed: int, steps: int) -> None:
    """A model that has learned the texts, each with a third of the probability, more or less."""
    rows = [
        {"prompt": render(problem, None), "completion": text}
        for problem in PROBLEMS
        for text in TEXTS[problem.gold.target]
    ]
    params = BootstrapParams(
        hidden_size=32, num_layers=1, num_heads=2, steps=steps, batch_size=6, lr=1e-2, threads=1
    )
    make_base_policy(rows, folder, params=params, seed=seed, key="base")


def peers_of(models: pathlib.Path) -> list[PeerEngine]:
    """Two peers: a copy of the base and a model of its own."""
    engines = {
        name: EmbeddedEngine.load(str(models / name), batch_size=8) for name in ("base", "other")
    }
    return [
        PeerEngine(engine, name=name, identity=engine.identity) for name, engine in engines.items()
    ]


def train(
    models: pathlib.Path,
    output: pathlib.Path,
    method: Method,
    peers: Sequence[Peer],
    *,
    classmate: dict[str, Any],
    progress: Any = None,
    **params: Any,
) -> None:
    """Train on the two problems, with a checkpoint at every second step; without peers if there are none."""
    train_params = TrainParams(
        method=method,
        **{
            "steps": 6,
            "batch_size": 2,
            "group_size": 4,
            "lr": 1e-3,
            "warm_start_steps": 0,
            "checkpoint_every": 2,
            "threads": 1,
        }
        | params,
    )
    classmate_params = ClassmateParams(**{"max_new_tokens": 12, "keep": (0.5,)} | classmate)
    make_rewards = make_classmate_rewards(
        peers,
        PROBLEMS,
        tokenizer=load_tokenizer(str(models / "base")),
        params=classmate_params,
        train=train_params,
        seed=5,
        folder=output.with_name(f"{output.name}-draws"),
    )
    train_policy(
        TrainingRequest(
            base=str(models / "base"),
            output=output,
            rows=ROWS,
            problems=PROBLEMS,
            params=train_params,
            verify=VerifyParams(),
            make_rewards=make_rewards if peers else None,
            max_new_tokens=16,
            seed=5,
            key="key",
            progress=progress,
        )
    )
