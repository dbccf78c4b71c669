"""The running batch of one adapter or of the base, and the counters of all."""

from dataclasses import dataclass, field

import torch

from pipeline_lib.engines.embedded.continuous_batch import ContinuousBatch
from pipeline_lib.engines.embedded.generation import ChoiceBuilder
from pipeline_lib.records import FinishReason


@dataclass(slots=True, kw_only=True)
class Counters:
    """Sums since the start."""

    prompt_tokens: int = 0
    """Counted once per prompt, at its first completion token."""
    completion_tokens: int = 0
    finished: dict[FinishReason, int] = field(
        default_factory=lambda: {FinishReason.STOP: 0, FinishReason.LENGTH: 0}
    )


@dataclass(slots=True)
class Lane:
    """The batch of one adapter or of the base, and its open completions."""

    batch: ContinuousBatch
    choices: dict[int, ChoiceBuilder] = field(default_factory=dict)
    """By sequence id."""
    uncounted: dict[int, int] = field(default_factory=dict)
    """Prompt tokens by sequence id of a prompt's first completion, until its first token."""
    retired: bool = False
    """The adapter is detached after its last sequence."""


def is_out_of_memory(error: Exception) -> bool:
    """True if a step failed for lack of memory."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    # The CPU allocator raises a plain RuntimeError.
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)
