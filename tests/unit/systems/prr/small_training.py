"""A tiny training; as a program it kills itself by SIGKILL at a given step (0: never)."""

import os
import pathlib
import signal
import sys
from typing import Any

import numpy as np

from pipeline_lib.params.prr import (
    PrrModelParams,
    PrrParams,
    PrrTrainParams,
    TrmParams,
)
from pipeline_lib.systems.prr.data.dataset_files import PuzzleSet
from pipeline_lib.systems.prr.training.train import LatentTraining, Progress

STEPS = 7
MODELS = {
    # With noise, communication and puzzle vectors: all sources of state and randomness.
    "prr": PrrModelParams(
        width=16,
        heads=2,
        hidden_multiple=8,
        prefix_tokens=1,
        num_branches=3,
        steps=3,
        start_noise=0.1,
        alpha=0.1,
    ),
    "trm": PrrModelParams(
        kind="trm",
        width=16,
        heads=2,
        hidden_multiple=8,
        prefix_tokens=1,
        num_branches=1,
        trm=TrmParams(high_cycles=1, low_cycles=1, max_steps=3, exploration=0.5),
    ),
}
# Without noise, so that the result does not depend on the number of processes.
PLAIN = {
    "plain": PrrModelParams(
        width=16, heads=2, hidden_multiple=8, prefix_tokens=1, num_branches=2, steps=2
    ),
    "plain-trm": MODELS["trm"].model_copy(
        update={"trm": TrmParams(high_cycles=1, low_cycles=1, max_steps=3, exploration=0)}
    ),
}


def small_set() -> PuzzleSet:
    """Twelve examples of four puzzles; the answer is the reversed input."""
    inputs_NL = np.random.default_rng(4).integers(2, 6, size=(12, 5)).astype(np.uint8)
    return PuzzleSet.of(
        inputs_NL=inputs_NL,
        labels_NL=np.ascontiguousarray(inputs_NL[:, ::-1]),
        puzzle_identifiers=[1, 2, 3, 4],
        puzzle_indices=[0, 3, 6, 9, 12],
        group_indices=[0, 2, 4],
        vocab_size=6,
    )


def small_training(
    output: pathlib.Path,
    kind: str,
    *,
    progress: Progress | None = None,
    seed: int = 1,
    max_seconds: float | None = None,
    key: str = "small",
    **train: Any,
) -> LatentTraining:
    """Seven steps, a checkpoint every second step; ``train`` overrides training params."""
    usual = {"steps": STEPS, "batch_size": 4, "checkpoint_every": 2, "log_every": 1}
    usual |= {"evaluate_every": STEPS, "evaluate_examples": 10}
    return LatentTraining(
        data=small_set(),
        test=small_set(),
        output=output,
        params=PrrParams(
            model=(MODELS | PLAIN)[kind],
            train=PrrTrainParams(**(usual | {"ema": 0.9, "lr": 1e-2} | train)),
        ),
        seed=seed,
        key=key,
        progress=progress,
        max_seconds=max_seconds,
    )


def _killed_at(last: int) -> Progress:
    def progress(step: int, _total: int, _metrics: object) -> None:
        if step == last:
            os.kill(os.getpid(), signal.SIGKILL)

    return progress


if __name__ == "__main__":
    from pipeline_lib.systems.prr.training.train import train_latent

    output, kind, last = sys.argv[1:]
    train_latent(small_training(pathlib.Path(output), kind, progress=_killed_at(int(last))))
