"""Settings of the draws of TRL's online trainers, and the prompts that they draw for.

The losses are in `grpo` and `rloo`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from datasets import Dataset

from pipeline_lib.train.online.rollouts import RolloutFunc
from pipeline_lib.train.phases import Row, order_rows
from pipeline_lib.train.trainer_settings import TrainerSettings

_COLUMNS = ("prompt", "problem_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutSettings:
    """Sampler, size and reuse of a rollout batch."""

    group_size: int
    """Paths per prompt."""
    max_new_tokens: int
    make_rollouts: Callable[[str], RolloutFunc]
    """Makes the rollout function of TRL for a policy's folder or hub id."""
    updates: int = 1
    """Optimizer steps per rollout batch."""
    use_sampling_logprobs: bool = False
    """An engine outside the trainer draws; its rounding makes its policy slightly different."""


def select_prompts(rows: Sequence[Row], settings: TrainerSettings, *, group_size: int) -> Dataset:
    """``prompt`` and ``problem_id`` of as many rows as the phase consumes."""
    problems = Dataset.from_list([{name: row[name] for name in _COLUMNS} for row in rows])
    return order_rows(problems, settings, sequences_per_row=group_size)


def trl_settings(rollouts: RolloutSettings) -> dict[str, Any]:
    """Keyword arguments that the configs of TRL's online trainers share."""
    return {
        "num_generations": rollouts.group_size,
        "max_completion_length": rollouts.max_new_tokens,
        "num_iterations": rollouts.updates,
        "temperature": 1.0,
        # TRL's default of 0 means no cut, but a model's own generation config may set one.
        "top_k": 0,
        "top_p": 1.0,
        "shuffle_dataset": False,
        "beta": 0.0,
        # The verdict on a truncated path is no verdict on its reasoning (DAPO's overlong filtering).
        "mask_truncated_completions": True,
    }
