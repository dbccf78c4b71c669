"""Result of an evaluation of one model, serializable as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from pipeline_lib.evaluation.statistics.paired import PairedDifference
from pipeline_lib.records import Interval


class Axis(StrEnum):
    """A cost per problem, in tokens."""

    DRAWN = "drawn tokens"
    TOTAL = "prompt and drawn tokens"
    CRITICAL = "critical path"


@dataclass(frozen=True, slots=True, kw_only=True)
class PacorePoint:
    """Accuracy and mean costs of a strategy, or of a vote among N plain paths."""

    name: str
    paths: int
    """N of a vote, mean calls of a strategy."""
    accuracy: Interval
    costs: Mapping[Axis, float]
    is_vote: bool
    upper_bound: bool = False
    """Needs the gold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgainstVotes:
    """A strategy minus the best vote that costs no more on one axis."""

    strategy: str
    axis: Axis
    vote: str
    paths: int
    difference: PairedDifference


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCall:
    """Correctness of a strategy's last call, by correctness of its references."""

    strategy: str
    all_wrong: int
    """Problems whose references are all wrong."""
    emergent: float | None
    """Share of these whose synthesis is right."""
    further_path: float | None
    """Share of these on which one further plain path is right."""
    some_right: int
    """Problems with a right reference."""
    lost: float | None
    """Share of these whose synthesis is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PacoreResult:
    """An evaluation of one model."""

    model: str
    num_problems: int
    num_left_out: int
    """A call or the verifier failed."""
    points: tuple[PacorePoint, ...]
    against: tuple[AgainstVotes, ...]
    last_calls: tuple[LastCall, ...]
