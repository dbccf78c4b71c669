"""Formats of numbers in report, console and artifacts."""

import re

from pipeline_lib.records import Interval

EMPTY = "\N{EN DASH}"
"""In place of a number that is not known."""

MINUS = "\N{MINUS SIGN}"
_JOINED = str.maketrans(" ", "\N{NO-BREAK SPACE}")
"""No line breaks within a number."""


def percent(fraction: float) -> str:
    """A fraction as percent: 0.3125 is ``31.2 %``."""
    return f"{100 * fraction:.1f} %".translate(_JOINED)


def points(difference: float) -> str:
    """A difference of fractions in signed percentage points; zero has no sign."""
    text = f"{100 * difference:+.1f}"
    return text[1:] if float(text) == 0 else text.replace("-", MINUS)


def score(interval: Interval) -> str:
    """A score with its bounds: ``31.2 % (28.0 to 34.6)``."""
    bounds = f"({100 * interval.low:.1f} to {100 * interval.high:.1f})".translate(_JOINED)
    return f"{percent(interval.value)} {bounds}"


def difference(interval: Interval) -> str:
    """A difference with its bounds: ``+5.0 (+1.2 to +8.8)``."""
    bounds = f"({points(interval.low)} to {points(interval.high)})".translate(_JOINED)
    return f"{points(interval.value)} {bounds}"


def level(interval: Interval) -> str:
    """The confidence of an interval: ``95 %``."""
    return f"{100 * interval.level:g} %".translate(_JOINED)


def p_value(value: float) -> str:
    """A p-value, or a bound where it is tiny: ``0.021``, ``< 0.001``."""
    return (f"{value:.3f}" if value >= 0.001 else "< 0.001").translate(_JOINED)


def p_equation(value: float) -> str:
    """A p-value as an equation: ``p = 0.021``, ``p < 0.001``."""
    relation = "= " if value >= 0.001 else ""
    return f"p {relation}{p_value(value)}".translate(_JOINED)


def duration(seconds: float) -> str:
    """Seconds as ``4.2 s``, ``3 min 05 s`` or ``2 h 07 min``."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes == 0:
        text = f"{seconds:.1f} s"
    elif minutes < 60:
        text = f"{minutes} min {rest:02d} s"
    else:
        text = f"{minutes // 60} h {minutes % 60:02d} min"
    return text.translate(_JOINED)


def known_duration(seconds: float | None) -> str:
    """`duration`, or a dash."""
    return EMPTY if seconds is None else duration(seconds)


def count(number: float) -> str:
    """An integer with narrow spaces between thousands; other numbers with three significant digits."""
    if number != int(number):
        return f"{number:.3g}"
    return f"{int(number):,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def arm_in_words(name: str) -> str:
    """An arm with its settings in brackets: ``rounds 4,1 model=base`` is ``rounds 4,1 (model base)``."""
    base, *settings = re.split(r" (\w+)=", name)
    pairs = zip(settings[::2], settings[1::2], strict=True)
    inside = "; ".join(f"{key}{' ' if len(key) > 1 else ' = '}{value}" for key, value in pairs)
    return f"{base} ({inside})" if inside else base


def words(name: str) -> str:
    """An identifier as words: ``num_problems`` is ``num problems``."""
    return name.replace("_", " ")
