"""The running batch of one adapter, or of the base, and what is counted of all of them."""

from dataclasses import dataclass, field

import torch

from pipeline_lib.records import FinishReason
from pipeline_lib.serving.decoding.continuous_batch import ContinuousBatch
from pipeline_lib.serving.front.generation import GrowingChoice


@dataclass(slots=True, kw_only=True)
class Counters:
    """Sums since the start."""

    prompt_tokens: int = 0
    """Each prompt counts once, when its first token is drawn."""
    completion_tokens: int = 0
    finished: dict[FinishReason, int] = field(
        default_factory=lambda: {FinishReason.STOP: 0, FinishReason.LENGTH: 0}
    )


@dataclass(slots=True)
class Lane:
    """The batch of one adapter, or of the base."""

    batch: ContinuousBatch
    choices: dict[int, GrowingChoice] = field(default_factory=dict)
    """By the number of the row."""
    uncounted: dict[int, int] = field(default_factory=dict)
    """Prompt tokens of the row that stands first for its prompt, until its first token."""
    retired: bool = False


def memory_is_short(error: Exception) -> bool:
    """Whether a step failed for want of memory, which a smaller request would not have needed."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    # The allocator of a CPU has no error class of its own.
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)
