r"""Caps on answers for SymPy: not too long, too deep, or of astronomic value.

The value is bounded from its spelling, as if every sum were a product and every symbol 2.
``((9!)!)!`` and ``10^{10^{10}}`` are detected without computing them; the pool's deadlines catch
what the bound misses.
"""

import itertools
import math
import re

MAX_CHARS = 2_000
MAX_DEPTH = 24
MAX_DIGITS = 400
MAX_TERMS = 300
MAX_ELEMENTS = 300
MAX_BITS = 40_000

_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|\d+(?:\.\d+)?|\S")
_BINOMIAL = re.compile(r"\\[dt]?binom|\\choose")
_OPENING = "([{"
_CLOSING = ")]}"


def cap_reason(answer: str) -> str | None:
    """The reason not to pass ``answer`` to SymPy; None if it is within the caps."""
    # The first two bound the cost of the others.
    if len(answer) > MAX_CHARS:
        return f"longer than {MAX_CHARS} characters"
    steps = ((sign in _OPENING) - (sign in _CLOSING) for sign in answer)
    if max(itertools.accumulate(steps), default=0) > MAX_DEPTH:
        return f"nested more than {MAX_DEPTH} deep"
    measures = (
        (max(map(len, re.findall(r"\d+", answer)), default=0), MAX_DIGITS, "digits"),
        (len(re.findall(r"[-+]", answer)), MAX_TERMS, "terms"),
        (len(re.findall(r"[,;]|\\\\|&", answer)), MAX_ELEMENTS, "elements"),
        (1 + _bits(_TOKEN.findall(answer)[::-1]), MAX_BITS, "bits"),
    )
    found = (f"of more than {most} {unit}" for size, most, unit in measures if size > most)
    return next(found, None)


def _bits(tokens: list[str]) -> float:
    """An upper bound on the bits of all up to the closing bracket; takes the tokens from the end."""
    total = 0.0
    while tokens:
        if tokens[-1] in _CLOSING:
            tokens.pop()
            break
        total += _factor(tokens)
    return total


def _factor(tokens: list[str], signs: str = "^!") -> float:
    """Bits of one operand with the powers and factorials that follow it."""
    bits = _operand(tokens)
    while tokens and tokens[-1] in signs:
        if tokens.pop() == "^":
            # Powers associate to the right, and the factorial of a power is not in its exponent.
            bits *= _value(_factor(tokens, "^"))
        # "n!!" is the product of every second number, less than n!, which is less than n^n.
        elif tokens[-1:] != ["!"]:
            bits *= _value(bits)
    return bits


def _operand(tokens: list[str]) -> float:
    token = tokens.pop() if tokens else ""
    if token and token in _OPENING:
        return _bits(tokens)
    if token[:1].isdecimal():
        whole, point, _ = token.partition(".")
        return math.log2(max(2, int(whole) + len(point)))
    if _BINOMIAL.fullmatch(token):
        return _value(_operand(tokens))
    return 1.0 if token[-1:].isalpha() else 0.0


def _value(bits: float) -> float:
    return math.exp2(min(bits, 1000))
