"""Result of an evaluation of one model, serializable as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import TypeAdapter

from pipeline_lib.records import Interval
from pipeline_lib.study.statistics.paired import PairedDifference


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
    voters: str
    """The model that draws the paths of the vote."""
    vote: str
    paths: int
    vote_cost: float
    """Of the vote on the axis, mean over problems."""
    capped: bool
    """A vote of all plain paths costs less than the strategy: more paths could be afforded than were drawn."""
    difference: PairedDifference


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceCounts:
    """References of a strategy's calls after the first round, means per call."""

    strategy: str
    shown: float
    dropped: float
    """Did not fit into the context beside the tokens of the answer."""


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
    references: tuple[ReferenceCounts, ...]
    last_calls: tuple[LastCall, ...]
    trained_on: tuple[str, ...] = ()
    """Of `problems.trained`."""


_RESULTS = TypeAdapter(tuple[PacoreResult, ...])


def result_rows(results: Sequence[PacoreResult]) -> list[dict[str, Any]]:
    """As JSON values."""
    rows: list[dict[str, Any]] = _RESULTS.dump_python(tuple(results), mode="json")
    return rows


def read_results(rows: Sequence[Mapping[str, Any]]) -> tuple[PacoreResult, ...]:
    """Inverse of `result_rows`, from JSON."""
    return _RESULTS.validate_python(rows)
