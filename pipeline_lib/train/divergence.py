"""Trainings that diverge to NaN or infinity end without a result."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor

from pipeline_lib.errors import DivergedError


def are_finite(tensors: Iterable[Tensor]) -> bool:
    """True if all values are finite."""
    return all(bool(tensor.isfinite().all()) for tensor in tensors)


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergenceCheck:
    """Checks of one phase; its name and learning rate are in the message."""

    phase: str
    lr: float

    def check_loss(self, loss: float, *, step: int) -> None:
        """Check the loss of a step.

        Raises:
            DivergedError: it is not finite.
        """
        if not math.isfinite(loss):
            raise self._error("loss", step)

    def check_weights(self, weights: Iterable[Tensor], *, step: int) -> None:
        """Check the weights after the last step, which may diverge after a finite loss.

        Raises:
            DivergedError: some are not finite.
        """
        if not are_finite(weights):
            raise self._error("weights", step)

    def _error(self, what: str, step: int) -> DivergedError:
        return DivergedError(
            f"{self.phase}, step {step}: diverged, {what} no longer finite; lower the learning rate, "
            f"{self.lr:g} now"
        )
