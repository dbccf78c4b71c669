"""What the curves of test-time compute found, as one value that can be stored and read back."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from pydantic import TypeAdapter

from pipeline_lib.evaluation.statistics.paired import PairedDifference
from pipeline_lib.params.evaluate import Strategy
from pipeline_lib.records import Interval

CURVES_NAME = "curves.json"

Point = tuple[Strategy, int]
"""A strategy at a budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """One strategy at one budget. Tokens are means over problems."""

    strategy: Strategy
    budget: int
    """Paths, branches of a beam, or rollouts."""
    strict: Interval
    lenient: Interval
    completion_tokens: float
    """All that was drawn, discarded branches as well."""
    critical_tokens: float
    """The longest chain of tokens of which each waits for the one before."""
    prompt_tokens: float
    scoring_tokens: float
    """Read once more to score what was drawn; no token of these is drawn."""
    upper_bound: bool
    """It chooses by the gold, so no deployed system can reach it like this."""
    against_majority: PairedDifference | None
    """Strict score less that of the majority vote at the same budget; None where that is the same
    thing, or is not among the points."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeCurves:
    """All points of one policy."""

    policy: str
    """``base`` or ``trained``."""
    model: str
    """Digest of its weights."""
    num_problems: int
    num_left_out: int
    """Problems of which our side failed to draw or to judge a path that is needed."""
    points: tuple[CurvePoint, ...]
    seed: int
    settings: Mapping[str, Any]
    """The section ``test_time`` of the params."""

    def curve(self, strategy: Strategy) -> list[CurvePoint]:
        """The points of one strategy, cheapest first."""
        return sorted(
            (point for point in self.points if point.strategy is strategy),
            key=lambda point: point.budget,
        )

    def to_json(self) -> str:
        """All of it, as JSON."""
        return TypeAdapter(type(self)).dump_json(self, indent=1).decode()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Inverse of :meth:`to_json`."""
        return TypeAdapter(cls).validate_json(text)
