"""The rollouts of an evaluation: of a model under one condition and temperature."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline_lib.systems.apr.rollouts import Row

TOKEN_COUNTS = ("drawn", "critical", "total", "longest")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSetting:
    """A model, the condition of its prompts, and the temperature of its draws."""

    name: str
    kind: str
    """``parallel`` or ``serial``."""
    condition: str
    """Empty without one."""
    temperature: float

    @property
    def label(self) -> str:
        """For titles: ``parallel, Sub Call Budget: 9, T = 0``."""
        named = [self.name, *filter(None, [self.condition])]
        return ", ".join([*named, f"T = {self.temperature:g}"])


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnRows:
    """The rows of all rollouts of one setting, in the order of the problems."""

    setting: ModelSetting
    rows: Sequence[Row]

    @property
    def whole(self) -> list[Row]:
        """The rollouts whose parent did not fail."""
        return [row for row in self.rows if "error" not in row]

    @property
    def by_problem(self) -> dict[str, list[Row]]:
        """The rollouts that did not fail, by problem; a problem without any is left out."""
        found: dict[str, list[Row]] = {}
        for row in self.whole:
            found.setdefault(row["problem_id"], []).append(row)
        return found

    def mean_tokens(self, count: str, *, most: float = float("inf")) -> float:
        """Mean of one of `TOKEN_COUNTS` over rollouts, each cut at ``most``."""
        return float(np.mean([min(row["tokens"][count], most) for row in self.whole]))


def most_accurate(drawn: Sequence[DrawnRows]) -> ModelSetting:
    """The most accurate setting; of equally accurate ones the one with the shortest critical path."""
    best = max(
        drawn,
        key=lambda one: (
            np.mean([*problem_scores(one.by_problem).values()]),
            -one.mean_tokens("critical"),
        ),
    )
    return best.setting


def problem_scores(groups: Mapping[str, Sequence[Row]]) -> dict[str, float]:
    """The share of right rollouts by problem."""
    return {
        name: float(np.mean([row["is_correct"] for row in rows])) for name, rows in groups.items()
    }
