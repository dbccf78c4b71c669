"""The policy as it was at the start, for the penalty on leaving it."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import torch

from pipeline_lib.params.train import LoraParams


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A copy of all weights, or with adapters the body that they sit on."""

    copied: Any | None
    """None stands for the policy in training with its adapters off."""

    @classmethod
    def of(cls, model: Any, lora: LoraParams, device: torch.device) -> Self:
        """That of a model which is about to be trained."""
        return cls(copied=None if lora.enabled else copy.deepcopy(model).to(device).eval())

    @contextmanager
    def opened(self, policy: Any) -> Iterator[Any]:
        """The reference as a model; ``policy`` must not be used beside it."""
        if self.copied is not None:
            yield self.copied
            return
        with policy.disable_adapter():
            yield policy
