"""Training compute in tokens: what a training takes, planned beforehand and counted afterwards.

Tokens follow from params and data alone, so a budget in tokens gives the same training on every
machine. Seconds differ from run to run; they are recorded as events and stated beside the tokens.
"""

import math
from dataclasses import dataclass

from pipeline_lib.params.train import ONLINE, Method, TrainParams

DRAWN_TOKEN = 0.6
"""Cost of a drawn and judged token in trained tokens. By arithmetic it is a third, a forward pass without
a backward pass; on a CPU the default run's loop and control then take about the same seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens that a training read, each as often as it was read; prompts count, padding does not."""

    trained: int = 0
    """In passes forward and backward."""
    drawn: int = 0
    """Sampled from a policy and judged, with their prompts."""

    def __add__(self, other: "Tokens") -> "Tokens":
        """Both together."""
        return Tokens(trained=self.trained + other.trained, drawn=self.drawn + other.drawn)

    @property
    def cost(self) -> int:
        """In trained tokens."""
        return self.trained + math.ceil(DRAWN_TOKEN * self.drawn)


def planned_tokens(params: TrainParams, *, prompt_tokens: float, path_tokens: float) -> Tokens:
    """What one round of training is expected to take.

    Args:
        params: method, steps and batch sizes.
        prompt_tokens: mean length of a prompt.
        path_tokens: mean length of a path without its prompt.
    """
    row = prompt_tokens + path_tokens
    if params.method not in ONLINE:
        rows_a_sequence = 2 if params.method is Method.DPO else 1
        sequences = params.steps * params.batch_size * rows_a_sequence
        return Tokens(trained=round(sequences * row))
    # A step of PPO makes all passes over its draw; with the other methods each pass is a step.
    draws = (
        params.steps if params.method is Method.PPO else params.steps / params.updates_per_rollout
    )
    drawn = round(draws * params.batch_size * params.group_size * row)
    warm = Tokens(trained=round(params.warm_start_steps * params.warm_start_batch_size * row))
    return warm + reused(drawn, passes=params.updates_per_rollout)


def reused(drawn: int, *, passes: int) -> Tokens:
    """Drawn tokens that are trained on in ``passes`` passes."""
    return Tokens(trained=drawn * passes, drawn=drawn)
