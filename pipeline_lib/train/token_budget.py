"""Training compute in tokens, planned beforehand and counted afterwards, and the share of trained weights.

Tokens depend on params and data alone, so a budget in tokens gives the same training on every machine.
Seconds differ from run to run; they are recorded as events.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pipeline_lib.params.train import ONLINE, Method, TrainParams

DRAWN_TOKEN = 0.6
"""Cost of a drawn and verified token in trained tokens. By operations it would be a third, a forward pass
without a backward pass; with this value loop and control of the default run take about the same seconds on
a CPU."""

BRANCH_TOKENS = "branch_tokens"
"""In the log of a step: tokens that were drawn for its prompts, and are not trained on."""

PEER_TOKENS = "peer_tokens/"
"""In front of the name of a peer: tokens that it read and drew for a step of another model's training."""

WEIGHT_COUNTS = ("trained_weights", "all_weights")
"""Counts in a policy's manifest: of the last phase of its training, adapters included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens that a training processed, with repetitions; prompts count, padding does not."""

    trained: int = 0
    """In forward and backward passes."""
    drawn: int = 0
    """Sampled from a policy and verified, with their prompts."""

    def __add__(self, other: "Tokens") -> "Tokens":
        """The sum of both."""
        return Tokens(trained=self.trained + other.trained, drawn=self.drawn + other.drawn)

    @property
    def cost(self) -> int:
        """Total in trained tokens."""
        return self.trained + math.ceil(DRAWN_TOKEN * self.drawn)


def weights_text(counts: Mapping[str, float]) -> str:
    """Trained and all weights by the counts of a policy's manifest, empty for a policy of an older version."""
    if not counts.keys() >= {*WEIGHT_COUNTS}:
        return ""
    trained, total = (int(counts[name]) for name in WEIGHT_COUNTS)
    return f"{trained:,} of {total:,} ({100 * trained / total:.3g} %)"


def plan_tokens(params: TrainParams, *, prompt_tokens: float, path_tokens: float) -> Tokens:
    """Tokens that one round of training is expected to process, from mean lengths of prompts and of paths."""
    row = prompt_tokens + path_tokens
    if params.method not in ONLINE:
        sequences_per_row = 2 if params.method is Method.DPO else 1
        sequences = params.steps * params.batch_size * sequences_per_row
        return Tokens(trained=round(sequences * row))
    # A step of PPO makes all passes over its draw; in other methods each pass is a step.
    draws = (
        params.steps if params.method is Method.PPO else params.steps / params.updates_per_rollout
    )
    drawn = round(draws * params.batch_size * params.group_size * row)
    warm = Tokens(trained=round(params.warm_start_steps * params.warm_start_batch_size * row))
    counted = count_reused(drawn, passes=params.updates_per_rollout)
    return warm + (replace(counted, drawn=0) if params.rollouts == "stored" else counted)


def count_reused(drawn: int, *, passes: int, log: Iterable[Mapping[str, float]] = ()) -> Tokens:
    """Drawn tokens that are trained on in ``passes`` passes, and those of branches in the ``log`` of the steps."""
    branches = sum(int(step.get(BRANCH_TOKENS, 0)) for step in log)
    return Tokens(trained=drawn * passes, drawn=drawn + branches)
