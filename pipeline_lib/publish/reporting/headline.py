"""The claims of a run as sentences, derived from the findings of paired tests."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pipeline_lib.study.comparison import Comparison
from pipeline_lib.study.pages.wording import level, p_equation, percent, points
from pipeline_lib.study.result import EvaluationResult, FurtherResults
from pipeline_lib.study.statistics.paired import DifferenceFinding, PairedDifference

FEW_PROBLEMS = 100
"""With fewer problems a sentence states the smallest detectable difference."""


_WITHOUT_CONTROL = (
    "There was no control (train.control=false), so the part of this difference that more "
    "supervised training alone would give is unknown."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """A title and the sentences with its figures."""

    title: str
    sentences: tuple[str, ...]


EQUAL = "an equal-compute control"


_NONE = FurtherResults()


def make_loop_headline(
    result: EvaluationResult,
    *,
    control: str = EQUAL,
    further: FurtherResults = _NONE,
    temperature: float = 1.0,
) -> Headline:
    """Title and sentences of a run: its gain over the control, at all temperatures.

    Args:
        result: result of the evaluation, at ``temperature``.
        control: name of the control in the title.
        temperature: that of sampling.
        further: results at further temperatures, and of baselines.
    """
    gains = {
        value: _claim(one).finding is DifferenceFinding.GAIN
        for value, one in {temperature: result, **further.temperatures}.items()
    }
    added = tuple(_further_sentences(gains, further))
    clause = _temperature_clause(gains)
    if result.over_control is None:
        found = make_headline(result.comparison)
        return Headline(
            title=f"{found.title}{clause}, without a control",
            sentences=(*found.sentences, *added, _WITHOUT_CONTROL),
        )
    return Headline(
        title=_title_over_control(result.over_control, control) + clause,
        sentences=(*_sentences_over_control(result, result.over_control), *added),
    )


def _temperature_clause(gains: Mapping[float, bool]) -> str:
    """The temperatures with a gain of pass@1 and those without; empty for one temperature or no gain."""
    if len(gains) == 1 or not any(gains.values()):
        return ""
    if all(gains.values()):
        return f"; pass@1 gains at temperatures {_listed(gains)}"
    with_gain = [value for value, gained in gains.items() if gained]
    without = [value for value, gained in gains.items() if not gained]
    return f"; pass@1 gains at temperature {_listed(with_gain)}, not at {_listed(without)}"


def _listed(temperatures: Iterable[float]) -> str:
    return " and ".join(f"{value:g}" for value in temperatures)


def _claim(result: EvaluationResult) -> PairedDifference:
    """The difference of pass@1 that the title is about."""
    return (result.over_control or result.comparison).strict[1]


def _further_sentences(gains: Mapping[float, bool], further: FurtherResults) -> Iterator[str]:
    for temperature, other in further.temperatures.items():
        against = "base" if other.over_control is None else "control"
        yield f"At temperature {temperature:g}, over the {against}: {_first(_claim(other))}."
    highest = max((value for value, gained in gains.items() if gained), default=0.0)
    if any(value < highest and not gained for value, gained in gains.items()):
        yield (
            "A gain that is missing at a lower temperature can be a sharper distribution over the same "
            "answers: such a policy loses fewer paths to chance and knows no more."
        )
    for baseline in further.baselines:
        yield (
            f"Over the {baseline.name} model at temperature {baseline.temperature:g}: "
            f"{_first(baseline.comparison.strict[1])}."
        )
        yield from _format_alone(baseline.comparison)


def _title_over_control(over: Comparison, control: str) -> str:
    max_k = max(over.strict)
    title = _first_over_control(over.strict[1], control)
    return title + _and_coverage(over, max_k) if max_k > 1 else title


def _first_over_control(first: PairedDifference, control: str) -> str:
    change = points(abs(first.interval.value)).lstrip("+")
    match first.finding:
        case DifferenceFinding.GAIN:
            return f"The loop adds {change} points of pass@1 to {control}"
        case DifferenceFinding.SIGNIFICANTLY_LOWER:
            return f"No gain over the control: pass@1 is {change} points below more supervised training"
        case DifferenceFinding.NO_SIGNIFICANT_GAIN:
            return "No gain over the control, more supervised training"


def _and_coverage(over: Comparison, k: int) -> str:
    coverage = over.strict[k]
    change = points(abs(coverage.interval.value)).lstrip("+")
    match coverage.finding:
        case DifferenceFinding.GAIN:
            return f", and {change} of pass@{k}"
        case DifferenceFinding.SIGNIFICANTLY_LOWER:
            return f"; coverage (pass@{k}) is {change} lower"
        case DifferenceFinding.NO_SIGNIFICANT_GAIN:
            gained = over.strict[1].finding is DifferenceFinding.GAIN
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
    yield f"pass@1 of the control minus that of the base: {points(without_loop)} points."
    yield from _cautions(over)


def make_headline(comparison: Comparison) -> Headline:
    """Title and sentences for one policy against another."""
    max_k = max(comparison.strict)
    title = _title(comparison.strict[1])
    if max_k > 1:
        title += _coverage_clause(comparison.strict[max_k], max_k)
    return Headline(title=title, sentences=tuple(_sentences(comparison, max_k)))


def _title(first: PairedDifference) -> str:
    change = points(abs(first.interval.value)).lstrip("+")
    match first.finding:
        case DifferenceFinding.GAIN:
            return f"pass@1 rose by {change} points"
        case DifferenceFinding.SIGNIFICANTLY_LOWER:
            return f"pass@1 fell by {change} points"
        case DifferenceFinding.NO_SIGNIFICANT_GAIN:
            return "No significant gain in pass@1"


def _coverage_clause(coverage: PairedDifference, k: int) -> str:
    if coverage.finding is not DifferenceFinding.SIGNIFICANTLY_LOWER:
        return ""
    change = points(abs(coverage.interval.value)).lstrip("+")
    return f"; coverage (pass@{k}) fell by {change}"


def _sentences(comparison: Comparison, max_k: int) -> Iterator[str]:
    yield f"{_first(comparison.strict[1])} on {comparison.num_problems} held-out problems."
    if max_k > 1:
        yield _coverage(comparison.strict[max_k], max_k)
    yield from _cautions(comparison)


def _format_alone(comparison: Comparison) -> Iterator[str]:
    first, lenient = comparison.strict[1], comparison.lenient[1]
    if first.finding is DifferenceFinding.GAIN and lenient.finding is not DifferenceFinding.GAIN:
        yield (
            f"The gain is in format only: by the lenient score pass@1 went {_change(lenient)}, "
            "which is no significant gain."
        )


def _cautions(comparison: Comparison) -> Iterator[str]:
    yield from _format_alone(comparison)
    first = comparison.strict[1]
    if comparison.num_problems < FEW_PROBLEMS:
        half_width = (first.interval.high - first.interval.low) / 2
        yield (
            f"With only {comparison.num_problems} problems, differences below about "
            f"{100 * half_width:.0f} points cannot be distinguished from chance."
        )
    if comparison.num_unpaired:
        yield f"{comparison.num_unpaired} problems were scored for one policy only and are left out."


def _first(first: PairedDifference) -> str:
    match first.finding:
        case DifferenceFinding.GAIN:
            return f"pass@1 rose {_change(first)}"
        case DifferenceFinding.SIGNIFICANTLY_LOWER:
            return f"pass@1 fell {_change(first)}"
        case DifferenceFinding.NO_SIGNIFICANT_GAIN:
            return f"No significant gain: pass@1 went {_change(first)}"


def _coverage(coverage: PairedDifference, k: int) -> str:
    match coverage.finding:
        case DifferenceFinding.GAIN:
            return f"Coverage rose: pass@{k} went {_change(coverage)}."
        case DifferenceFinding.SIGNIFICANTLY_LOWER:
            return f"Coverage fell: pass@{k} went {_change(coverage)}."
        case DifferenceFinding.NO_SIGNIFICANT_GAIN:
            return f"No significant change of coverage: pass@{k} went {_change(coverage)}."


def _change(found: PairedDifference) -> str:
    bounds = found.interval
    return (
        f"from {percent(found.base)} to {percent(found.trained)} ({points(bounds.value)} points, "
        f"{level(bounds)} interval {points(bounds.low)} to {points(bounds.high)}, "
        f"{p_equation(found.p_value)})"
    )
