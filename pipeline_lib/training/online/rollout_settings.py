"""What online methods share: rows of prompts, how a step draws its paths, what a verdict is worth.

It knows no loss: `grpo` and `rloo` do.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from datasets import Dataset

from pipeline_lib.training.online.rollouts import RolloutFunc
from pipeline_lib.training.phases import Row, ordered

_COLUMNS = ("prompt", "problem_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollouts:
    """How the paths are drawn, and how often they are used."""

    group_size: int
    max_new_tokens: int
    opened_on: Callable[[str], RolloutFunc]
    """Starts what draws the paths, on the policy of a folder."""
    updates: int = 1
    """Optimizer steps on the paths of one draw."""
    elsewhere: bool = False
    """Another engine draws, whose rounding makes it a slightly other policy."""


def prompts_of(rows: Sequence[Row], settings: Row, *, group_size: int) -> Dataset:
    """Rows with ``prompt`` and ``problem_id``, as many as the phase consumes."""
    problems = Dataset.from_list([{name: row[name] for name in _COLUMNS} for row in rows])
    return ordered(problems, settings, sequences_per_row=group_size)


def drawing_settings(rollouts: Rollouts) -> dict[str, Any]:
    """What the configs of TRL's online trainers are told alike."""
    return {
        "num_generations": rollouts.group_size,
        "max_completion_length": rollouts.max_new_tokens,
        "num_iterations": rollouts.updates,
        "temperature": 1.0,
        # TRL's default of 0 means no cut, but a model's own generation config may bring one.
        "top_k": 0,
        "top_p": 1.0,
        "shuffle_dataset": False,
        "beta": 0.0,
        # A path that was cut off says nothing about its reasoning (DAPO's overlong filtering).
        "mask_truncated_completions": True,
    }
