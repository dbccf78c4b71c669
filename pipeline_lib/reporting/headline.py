"""What may be claimed, in sentences. They are built from findings, so they cannot overclaim."""

from collections.abc import Iterator
from dataclasses import dataclass

from pipeline_lib.evaluation.comparison import Comparison
from pipeline_lib.evaluation.result import EvaluationResult
from pipeline_lib.evaluation.statistics.paired import Finding, PairedDifference
from pipeline_lib.reporting.wording import level, p_equation, percent, points

FEW_PROBLEMS = 100
"""Below this the reader is told how large a difference would have been seen."""


_WITHOUT_CONTROL = (
    "There was no control (train.control=false), so it is not known how much of this more of the "
    "base's own training would give."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """One title and the sentences that carry its figures."""

    title: str
    sentences: tuple[str, ...]


EQUAL = "an equal-compute control"


def loop_headline(result: EvaluationResult, *, control: str = EQUAL) -> Headline:
    """Title and sentences of a run: what the loop adds to as much training without it.

    Args:
        result: of the evaluation.
        control: what the control is, as the title calls it.
    """
    if result.over_control is None:
        found = headline(result.comparison)
        return Headline(
            title=f"{found.title}, without a control",
            sentences=(*found.sentences, _WITHOUT_CONTROL),
        )
    return Headline(
        title=_title_over_control(result.over_control, control),
        sentences=tuple(_sentences_over_control(result, result.over_control)),
    )


def _title_over_control(over: Comparison, control: str) -> str:
    max_k = max(over.strict)
    title = _first_over_control(over.strict[1], control)
    return title + _and_coverage(over, max_k) if max_k > 1 else title


def _first_over_control(first: PairedDifference, control: str) -> str:
    change = points(abs(first.interval.value)).lstrip("+")
    match first.finding:
        case Finding.GAIN:
            return f"The loop adds {change} points of pass@1 to {control}"
        case Finding.SIGNIFICANTLY_LOWER:
            return f"No gain over the control: pass@1 is {change} points below more of the same training"
        case Finding.NO_SIGNIFICANT_GAIN:
            return "No gain over the control, more of the same training"


def _and_coverage(over: Comparison, k: int) -> str:
    coverage = over.strict[k]
    change = points(abs(coverage.interval.value)).lstrip("+")
    match coverage.finding:
        case Finding.GAIN:
            return f", and {change} of pass@{k}"
        case Finding.SIGNIFICANTLY_LOWER:
            return f"; coverage (pass@{k}) is {change} lower"
        case Finding.NO_SIGNIFICANT_GAIN:
            gained = over.strict[1].finding is Finding.GAIN
            return f", none of pass@{k}" if gained else ""


def _sentences_over_control(result: EvaluationResult, over: Comparison) -> Iterator[str]:
    base, max_k = result.comparison, max(over.strict)
    yield f"Over the control on {over.num_problems} held-out problems: {_first(over.strict[1])}."
    if max_k > 1:
        yield _coverage(over.strict[max_k], max_k)
    yield f"Over the base: {_first(base.strict[1])}."
    if max_k > 1:
        yield _coverage(base.strict[max_k], max_k)
    without_loop = over.strict[1].base - base.strict[1].base
    yield f"pass@1 of the control itself is {points(without_loop)} points from that of the base."
    yield from _cautions(over)


def headline(comparison: Comparison) -> Headline:
    """Title and sentences for one policy against another."""
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
    yield f"{_first(comparison.strict[1])} on {comparison.num_problems} held-out problems."
    if max_k > 1:
        yield _coverage(comparison.strict[max_k], max_k)
    yield from _cautions(comparison)


def _cautions(comparison: Comparison) -> Iterator[str]:
    first, lenient = comparison.strict[1], comparison.lenient[1]
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
