"""What may be claimed, in sentences. They are built from findings, so they cannot overclaim."""

from collections.abc import Iterator
from dataclasses import dataclass

from pipeline_lib.evaluation.comparison import Comparison
from pipeline_lib.evaluation.paired import Finding, PairedDifference
from pipeline_lib.reporting.wording import level, p_equation, percent, points

FEW_PROBLEMS = 100
"""Below this the reader is told how large a difference would have been seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """One title and the sentences that carry its figures."""

    title: str
    sentences: tuple[str, ...]


def headline(comparison: Comparison) -> Headline:
    """Title and sentences for base against trained."""
    max_k = max(comparison.strict)
    title = _title(comparison.strict[1])
    if max_k > 1:
        title += _coverage_clause(comparison.strict[max_k], max_k)
    return Headline(title=title, sentences=tuple(_sentences(comparison, max_k)))


def _title(first: PairedDifference) -> str:
    change = points(abs(first.interval.value)).lstrip("+")
    match first.finding:
        case Finding.GAIN:
            return f"pass@1 rose by {change} points"
        case Finding.SIGNIFICANTLY_LOWER:
            return f"pass@1 fell by {change} points"
        case Finding.NO_SIGNIFICANT_GAIN:
            return "No significant gain in pass@1"


def _coverage_clause(coverage: PairedDifference, k: int) -> str:
    if coverage.finding is not Finding.SIGNIFICANTLY_LOWER:
        return ""
    change = points(abs(coverage.interval.value)).lstrip("+")
    return f"; coverage (pass@{k}) fell by {change}"


def _sentences(comparison: Comparison, max_k: int) -> Iterator[str]:
    first, lenient = comparison.strict[1], comparison.lenient[1]
    yield f"{_first(first)} on {comparison.num_problems} held-out problems."
    if max_k > 1:
        yield _coverage(comparison.strict[max_k], max_k)
    if first.finding is Finding.GAIN and lenient.finding is not Finding.GAIN:
        yield (
            f"The gain is one of format: by the lenient score pass@1 went {_change(lenient)}, "
            "which is no significant gain."
        )
    if comparison.num_problems < FEW_PROBLEMS:
        half_width = (first.interval.high - first.interval.low) / 2
        yield (
            f"With only {comparison.num_problems} problems a difference of less than about "
            f"{100 * half_width:.0f} points could not be told from chance."
        )
    if comparison.num_unpaired:
        yield f"{comparison.num_unpaired} problems were scored for one policy only and left out."


def _first(first: PairedDifference) -> str:
    match first.finding:
        case Finding.GAIN:
            return f"pass@1 rose {_change(first)}"
        case Finding.SIGNIFICANTLY_LOWER:
            return f"pass@1 fell {_change(first)}"
        case Finding.NO_SIGNIFICANT_GAIN:
            return f"No significant gain: pass@1 went {_change(first)}"


def _coverage(coverage: PairedDifference, k: int) -> str:
    match coverage.finding:
        case Finding.GAIN:
            return f"Coverage rose: pass@{k} went {_change(coverage)}."
        case Finding.SIGNIFICANTLY_LOWER:
            return f"Coverage fell: pass@{k} went {_change(coverage)}."
        case Finding.NO_SIGNIFICANT_GAIN:
            return f"No significant change of coverage: pass@{k} went {_change(coverage)}."


def _change(found: PairedDifference) -> str:
    bounds = found.interval
    return (
        f"from {percent(found.base)} to {percent(found.trained)} ({points(bounds.value)} points, "
        f"{level(bounds)} interval {points(bounds.low)} to {points(bounds.high)}, "
        f"{p_equation(found.p_value)})"
    )
