"""The table of advantage rules, by the names that ``train.advantage`` takes.

A new rule is a function in a file of its own, and a line in the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pipeline_lib.errors import BadInputError
from pipeline_lib.terminal_text import one_line
from pipeline_lib.train.advantages.dr_grpo import dr_grpo
from pipeline_lib.train.advantages.gdpo import gdpo
from pipeline_lib.train.advantages.groups import sum_parts
from pipeline_lib.train.advantages.grpo import grpo
from pipeline_lib.train.advantages.rloo import rloo

if TYPE_CHECKING:
    import torch

_SHOWN_CHARACTERS = 60

AdvantageRule = Callable[["torch.Tensor"], "torch.Tensor"]
"""From rewards [P, N, K] to advantages [P, N]; both have NaN for what is missing."""


def _apply_to_sum(rule: AdvantageRule) -> AdvantageRule:
    """``rule``, which takes rewards [P, N], applied to the sum of the parts."""

    def apply(rewards_PNK: torch.Tensor) -> torch.Tensor:
        return rule(sum_parts(rewards_PNK, rewards_PNK))

    return apply


RULES: Mapping[str, AdvantageRule] = {
    "dr_grpo": _apply_to_sum(dr_grpo),
    "gdpo": gdpo,
    "grpo": _apply_to_sum(grpo),
    "rloo": _apply_to_sum(rloo),
}


def find_rule(name: str) -> AdvantageRule:
    """The rule of that name.

    Raises:
        BadInputError: there is none; the message lists the names.
    """
    if name not in RULES:
        raise BadInputError(
            f"train.advantage={one_line(name, most=_SHOWN_CHARACTERS)} is unknown; "
            f"known rules are {', '.join(sorted(RULES))}"
        )
    return RULES[name]


def compute_advantages(rule: AdvantageRule, rewards_PNK: torch.Tensor) -> torch.Tensor:
    """Advantages [P, N] of ``rewards_PNK``; 0, which has no gradient, where the rule gives NaN."""
    advantages_PN = rule(rewards_PNK)
    return advantages_PN.masked_fill(advantages_PN.isnan(), 0.0)
