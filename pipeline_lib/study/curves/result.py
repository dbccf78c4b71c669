"""Test-time compute curves of a policy, serializable as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline_lib.params.evaluate import Strategy
from pipeline_lib.records import Interval
from pipeline_lib.study.statistics.paired import PairedDifference

CURVES_NAME = "curves.json"

Point = tuple[Strategy, int]
"""A strategy and its budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """One strategy at one budget. Tokens are means over problems."""

    strategy: Strategy
    budget: int
    """Paths, branches of a beam, or rollouts."""
    strict: Interval
    lenient: Interval
    completion_tokens: float
    """All sampled tokens, including discarded branches."""
    critical_tokens: float
    """The longest chain of sequentially dependent tokens."""
    prompt_tokens: float
    scoring_tokens: float
    """Tokens read again for scoring."""
    upper_bound: bool
    """The strategy uses labels, so it bounds deployable ones."""
    against_majority: PairedDifference | None
    """Strict score minus that of the majority vote at the same budget; None if that is the same
    strategy or not among the points."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeCurves:
    """All points of one policy."""

    policy: str
    """``base`` or ``trained``."""
    model: str
    """Digest of the weights."""
    num_problems: int
    num_left_out: int
    """Problems that lack a required path because of a failed request or verification."""
    points: tuple[CurvePoint, ...]
    seed: int
    settings: Mapping[str, Any]
    """The params section ``test_time``."""

    def curve(self, strategy: Strategy) -> list[CurvePoint]:
        """The points of one strategy, cheapest first."""
        return sorted(
            (point for point in self.points if point.strategy is strategy),
            key=lambda point: point.budget,
        )
