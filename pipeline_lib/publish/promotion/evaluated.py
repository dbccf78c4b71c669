"""A policy with the judged paths of its evaluation, of a workspace or of a release."""

import pathlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from pydantic import BaseModel, ConfigDict

from pipeline_lib.records import Group
from pipeline_lib.train.rows.groups import read_groups


class TrainingCompute(BaseModel):
    """Compute of the loop in metrics.json; seconds are None where they are unknown."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cpu_seconds: float | None
    gpu_seconds: float | None
    trained_tokens: int
    drawn_tokens: int


class Cost(BaseModel):
    """The cost of using a policy and of making it; None where it is unknown."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seconds_per_1000_paths: float | None = None
    """Worker seconds of the evaluation's draw."""
    making: TrainingCompute | None = None
    """Sampling, verification and training of all rounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The sealed tables of an evaluation."""

    problems: pathlib.Path
    paths: pathlib.Path
    verdicts: pathlib.Path

    @classmethod
    def below(cls, folder: pathlib.Path) -> Self:
        """The tables of a release, below ``folder``."""
        return cls(
            problems=folder / "problems", paths=folder / "paths", verdicts=folder / "verdicts"
        )

    def read(self) -> list[Group]:
        """The judged paths by problem.

        Raises:
            BadInputError: a table is missing or damaged.
        """
        return read_groups(self.problems, self.paths, self.verdicts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """One side of a comparison."""

    name: str
    """``candidate``, ``base`` or ``release 3``."""
    groups: Sequence[Group]
    verifier: str
    """Version of the verifiers."""
    cost: Cost
