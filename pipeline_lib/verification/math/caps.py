r"""Caps on answers for SymPy: not too long, too deep, or of astronomic value.

The value is bounded from its spelling: sums and products add the bits of their parts, a power
multiplies them by the exponent's value, a factorial grows like n log n. ``((9!)!)!`` and
``10^{10^{10}}`` are detected without computing them; the pool's deadlines catch what the bound
misses.
"""

import math
import re

MAX_CHARS = 2_000
MAX_DEPTH = 24
MAX_DIGITS = 400
MAX_TERMS = 300
MAX_ELEMENTS = 300
MAX_BITS = 40_000

_BITS_PER_DIGIT = math.log2(10)
_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|\d+(?:\.\d+)?|\S")
_BINOMIAL = re.compile(r"\\[dt]?binom|\\choose")
_OPENING = "([{"
_CLOSING = ")]}"


def cap_reason(answer: str) -> str | None:
    """The reason not to pass ``answer`` to SymPy; None if it is within the caps."""
    # The first two bound the cost of the others.
    if len(answer) > MAX_CHARS:
        return f"longer than {MAX_CHARS} characters"
    if _depth(answer) > MAX_DEPTH:
        return f"nested more than {MAX_DEPTH} deep"
    measures = (
        (_longest_numeral(answer), MAX_DIGITS, "digits"),
        (len(re.findall(r"[-+]", answer)), MAX_TERMS, "terms"),
        (len(re.findall(r"[,;]|\\\\|&", answer)), MAX_ELEMENTS, "elements"),
        (_Estimate(answer).bits(), MAX_BITS, "bits"),
    )
    return next(
        (f"of more than {most} {unit}" for size, most, unit in measures if size > most), None
    )


def _longest_numeral(text: str) -> int:
    return max(map(len, re.findall(r"\d+", text)), default=0)


def _depth(text: str) -> int:
    depth = deepest = 0
    for character in text:
        if character in _OPENING:
            depth += 1
            deepest = max(deepest, depth)
        elif character in _CLOSING:
            depth -= 1
    return deepest


class _Estimate:
    """An upper bound on the bits of numerator and denominator of an expression."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = _TOKEN.findall(text)
        self._position = 0

    def bits(self) -> float:
        """The bound for everything from here to the closing bracket or the end."""
        total = 0.0
        while (token := self._peek()) is not None:
            if token in _CLOSING:
                self._position += 1
                break
            total += self._factor()
        return total

    def _peek(self) -> str | None:
        inside = self._position < len(self._tokens)
        return self._tokens[self._position] if inside else None

    def _factor(self) -> float:
        """One operand with the powers and factorials that follow it."""
        bits, value = self._operand()
        while self._peek() in {"^", "!"}:
            sign = self._tokens[self._position]
            self._position += 1
            if sign == "^":
                bits, value = _power(bits, value, self._exponent())
            elif self._peek() == "!":
                # "n!!" is the product of every second number, less than n!.
                continue
            elif value > 1:
                bits = value * math.log2(value)
                value = _power_of_two(bits)
        return bits

    def _exponent(self) -> float:
        """An upper bound on the exponent; powers associate to the right."""
        bits, value = self._operand()
        if self._peek() == "^":
            self._position += 1
            bits, value = _power(bits, value, self._exponent())
        return max(value, 1.0)

    def _operand(self) -> tuple[float, float]:
        """Bits of one operand, and an upper bound on its value."""
        token = self._peek()
        if token is None:
            return 0.0, 0.0
        self._position += 1
        if token in _OPENING:
            return self._group()
        if token[0].isdigit():
            bits = len(token) * _BITS_PER_DIGIT
            return bits, float(token) if bits < 1000 else math.inf
        if _BINOMIAL.fullmatch(token):
            _, above = self._operand()
            return above, _power_of_two(above)
        # A symbol is a term of a polynomial; its factorial or power stays symbolic.
        return (1.0, 1.0) if token[-1].isalpha() else (0.0, 0.0)

    def _group(self) -> tuple[float, float]:
        start = self._position
        bits = self.bits()
        inner = self._tokens[start : self._position - 1]
        if len(inner) == 1 and inner[0][0].isdigit() and bits < 1000:
            return bits, float(inner[0])
        if not any(mark[0].isdigit() or mark == "!" for mark in inner):
            return bits, 1.0
        return bits, _power_of_two(bits)


def _power(bits: float, value: float, exponent: float) -> tuple[float, float]:
    try:
        return bits * exponent, max(value, 1.0) ** exponent
    except OverflowError:
        return bits * exponent, math.inf


def _power_of_two(bits: float) -> float:
    return 2.0**bits if bits < 1000 else math.inf
