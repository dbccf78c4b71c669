r"""Parsing of formulas by math-verify: faster, with the same results, and with notation that it ignores.

Its grammar needs full-context prediction at nearly every comma and bracket, which is not cached.
Prediction without context (SLL) either fails or gives the same tree, because the start rule ends
with the text. Also, every numeral is compiled as a Python expression in a namespace into which all
of SymPy is imported again. Imported by workers only.

A formula is rewritten so that math-verify distinguishes primes, transposes, degrees, ``!!``, bases and
moduli, or split into its possible readings (``1/2x``).

math-verify's own deadlines are off because they use alarms of the calling thread. The worker sets
an alarm, and the pool kills a worker that does not react to it.

Source: Parr, Harwell, Fisher, "Adaptive LL(*) Parsing", 2014 (two-stage parsing).
"""

import functools
import logging
import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import sympy
from antlr4.atn.PredictionMode import PredictionMode  # type: ignore[import-untyped]
from latex2sympy2_extended import NormalizationConfig, latex2sympy2
from math_verify import LatexExtractionConfig, parse

from pipeline_lib.verify.math.exact.comparison import AmbiguousError
from pipeline_lib.verify.math.exact.quantity import parse_quantity

# Units are parsed by exact.units: math-verify reads the h of "2h" as hours.
_FORM = NormalizationConfig(units=False, malformed_operators=True, nits=True, boxed="none")
_LATEX = [LatexExtractionConfig(normalization_config=_FORM)]


class QuickReader(latex2sympy2._Latex2Sympy):  # type: ignore[misc]  # noqa: SLF001 - no other seam
    """The converter from LaTeX to SymPy, with the two slow steps replaced."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        # Capital letters are distinct symbols, and a symbol is the same beside an i.
        self.is_real = True
        self.config: Any = replace(vars(self)["config"], lowercase_symbols=False)

    def create_parser(self, latex_str: str) -> Any:
        """A parser whose ``math()`` tries SLL prediction first, and full LL only if that fails."""
        parser = super().create_parser(latex_str)
        read = parser.math

        def two_stages() -> Any:
            # All tokens first: after a lexer error the second stage would continue behind it.
            parser.getTokenStream().fill()
            parser._interp.predictionMode = PredictionMode.SLL  # noqa: SLF001 - it has no setter
            try:
                return read()
            except Exception:  # noqa: BLE001 - as raised by the listener
                parser.reset()
                parser._interp.predictionMode = PredictionMode.LL  # noqa: SLF001
                return read()

        parser.math = two_stages
        return parser

    def parse_number(self, text: str) -> Any:
        """The exact SymPy number of a numeral."""
        return sympy.Rational(text.replace(",", ""))


# Reached by `parse` of math-verify; its warnings say that its deadlines are off.
latex2sympy2._Latex2Sympy = QuickReader  # noqa: SLF001
logging.disable(logging.CRITICAL)


@functools.lru_cache(maxsize=4096)
def parse_formula(text: str) -> tuple[Any, ...]:
    """SymPy objects that math-verify parses from a formula; empty if it cannot."""
    options = {"fallback_mode": "no_fallback", "parsing_timeout": None, "raise_on_error": True}
    found = or_none(functools.partial(parse, **options), f"${text}$", _LATEX)
    return tuple(item for item in found or () if isinstance(item, sympy.Basic | sympy.MatrixBase))


def parse_number(text: str) -> Any:
    """The SymPy expression of a formula; None if it cannot be parsed, or is no expression."""
    values = parse_formula(text)
    return values[0] if values and isinstance(values[0], sympy.Expr) else None


def or_none(work: Callable[..., Any], *arguments: Any) -> Any:
    """The result of ``work``; None if SymPy raises anything but MemoryError."""
    try:
        return work(*arguments)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - parsers and simplifiers raise many types
        return None


_MAX_DOUBLE_FACTORIAL = 300
NEGATED = re.compile(
    r"\\not ?(?:=|\\equiv|\\in|\\subset|<|>|\\le|\\ge|\\sim)?|\\neq?(?![a-z])|!=|<>|\\notin|\\neg|\\lnot"
    r"|\\nsim|\\sim(?![a-z])|\\n(?:le|ge|leq|geq)(?![a-z])"
)
ELLIPSIS = re.compile(r"\\[lvd]dots")
_UNEQUAL = re.compile(r"\\not ?=|\\ne(?![a-z])|!=|<>")
_PRIMED = re.compile(r"(\\[A-Za-z]+|[A-Za-z])(?: ?\^ ?\{? ?(?:\\prime ?)+\}?|('+))")
_DIFFERENTIAL = re.compile(
    r"(?<![A-Za-z\\])(?:d|\\partial) ?(?:\^ ?\{?(\d)\}? ?)?([A-Za-z])(?![A-Za-z'])"
)
_LONE_D = re.compile(r"(?<![A-Za-z\\{])d(?![_A-Za-z'])")
_OPERATOR = re.compile(r"\\int|\\frac ?\{ ?(?:d|\\partial)(?: ?\^ ?\{?\d\}?)? ?\}")
_INVERSE_FUNCTION = re.compile(r"(?<![A-Za-z\\])([a-z]) ?\^ ?\{ ?-1 ?\} ?(?=\()")
_TRANSPOSED = re.compile(
    r"\^ ?(?:\{ ?(?:T|\\top|\\intercal|\\mathsf ?\{?T\}?|\\text\{ ?T ?\}) ?\}|T(?![A-Za-z])"
    r"|\\top(?![a-z])|\\intercal|\\text\{ ?T ?\})"
)
_INVERSE = re.compile(r"[A-Z] ?\^ ?\{ ?-")
_SPELLED = re.compile(r"[A-Z]{2,}")
_COMMAND = re.compile(r"\\(?:begin|end) ?\{[^{}]*\}|\\[A-Za-z]+")
_VECTOR = re.compile(r"\\(?:vec|hat|overrightarrow|nabla)|\\text\{ ?[a-z] ?\}")
_PRODUCT = re.compile(r"\\(?:times|cdot)(?![a-z])")
_JUXTAPOSED = re.compile(r"(?<![_^\d.])\d[\d.]* +(?!\d+ ?/)\d")
_BRACKET = re.compile(r"(?<!sqrt)\[(?! ?\\begin)")
_ORDER = re.compile(r"([A-Za-z]) ?\^ ?\{ ?\( ?(\d) ?\) ?\}")
_CYCLES = re.compile(r"(?:\( ?\d+(?:(?: |, ?)\d+)* ?\) ?)+")
_DOUBLE = re.compile(r"(\d+|[A-Za-z]|\)|\})\s?!\s?!")
_FUNCTION = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![a-z])")
_DEGREES = re.compile(r"(\d+(?:\.\d+)?|\\?[A-Za-z]+|\([^()]*\))\s?\^\\circ")
_NUMERAL = r"\(?(?:\\text\{ ?)?([0-9A-Fa-f]+)(?: ?\})?\)?"
_BINOMIAL = re.compile(
    r"C ?_ ?\{? ?(\d+) ?\}? ?\^ ?\{? ?(\d+) ?\}?|(?:\{ ?\})? ?[_^] ?\{? ?(\d+) ?\}? ?C ?_? ?\{? ?(\d+) ?\}?"
    r"|C ?\^ ?\{? ?(\d+) ?\}? ?_ ?\{? ?(\d+) ?\}?|(?<![\w.])(\d+)C(\d+)(?!\w)|(?<![A-Za-z\\])C ?\( ?(\d+) ?, ?(\d+) ?\)|\{? ?(\d+) ?\\choose ?(\d+) ?\}?"
)
_BASE = re.compile(
    _NUMERAL
    + r" ?_ ?(?:(\d)|\{ ?(?:\\text\{)? ?(?:base )?(\d+|[a-z]+) ?\}? ?\})|([0-9A-Fa-f]+)(?: "
    r"|\\text\{ ?)+\(?base (\d+|[a-z]+)\)? ?\}?"
)
_MODULUS = re.compile(
    r"(.*?)[ ,]*\(?(?:\\pmod|\\bmod|\\mod|\\text\{ ?\(?mod ?\}|\bmod\b) ?\{? ?(-?\d+|[A-Za-z])\b ?\}?\)?"
)
_FACTOR = re.compile(
    r" ?(?:\d+(?:\.\d+)?|\\(?:sqrt|frac)(?:\[[^\]]*\])?(?:\{[^{}]*\})+|\\(?!cdot|times|div|le|ge|cup|cap"
    r"|pm|mp|in|quad|end|begin|right|left)[a-zA-Z]+|[A-Za-z]|\([^()]*\))"
    r"(?:\^(?:\{[^{}]*\}|\w|\\[a-z]+)|_(?:\{[^{}]*\}|\w)|!)*"
)
_FACTORS = re.compile(f"(?:{_FACTOR.pattern})+")


def parse_numeral(text: str) -> tuple[int, int] | None:
    r"""Value and base of a numeral as ``52_8`` or ``1A_{16}``; None for anything else."""
    found = _BASE.fullmatch(text.strip())
    if found is None:
        return None
    digits, written = found[1] or found[4], found[2] or found[3] or found[5]
    quantity = parse_quantity(written)
    base = int(quantity.value) if quantity else 0
    try:
        return (int(digits, base), base) if 2 <= base <= 36 else None
    except ValueError:
        return None


def parse_residue(text: str) -> tuple[str, str]:
    r"""Value and modulus, as written in ``x \equiv 3 \pmod 7``; an empty modulus if there is none."""
    found = _MODULUS.fullmatch(text.strip())
    value, modulus = found.groups() if found else (text, "")
    return re.split(r"\\equiv|=", value)[-1].strip(), modulus


def is_reordered(gold: str, answer: str) -> bool:
    """True if the order of letters or numbers may matter, and is not known to be the same.

    It matters in names of points and segments (``ABC``), for matrices, which have transposes and
    inverses, for vectors under a product, and for numbers that only spaces divide.
    """
    one, other = (_COMMAND.sub(" ", _TRANSPOSED.sub(" ", text)) for text in (gold, answer))
    if (
        (_JUXTAPOSED.search(gold) or _JUXTAPOSED.search(answer))
        or bool(_BRACKET.search(gold)) != bool(_BRACKET.search(answer))
        or sorted(_SPELLED.findall(one)) != sorted(_SPELLED.findall(other))
    ):
        return True
    if any(_TRANSPOSED.search(text) or _INVERSE.search(text) for text in (gold, answer)):
        return re.findall(r"[A-Z]", one) != re.findall(r"[A-Z]", other)
    crossed = any(_PRODUCT.search(text) and _VECTOR.search(text) for text in (gold, answer))
    return crossed and "".join(gold.split()) != "".join(answer.split())


def parse_permutation(text: str) -> tuple[frozenset[tuple[str, str]], bool] | None:
    """The moved points with their images, for cycles as ``(1 3 2)`` or ``(12)(34)``; else None.

    And False if the text may be a number: ``(132)``.
    """
    if not _CYCLES.fullmatch(text):
        return None
    written = re.findall(r"\(([^)]*)\)", text)
    spaced = any(re.search(r"\d[ ,]+\d", cycle) for cycle in written)
    cycles = [re.findall(r"\d+" if spaced else r"\d", cycle) for cycle in written]
    if any(len(cycle) < 2 or len(set(cycle)) < len(cycle) for cycle in cycles):
        return None
    image: dict[str, str] = {}
    for cycle in reversed(cycles):
        step = dict(zip(cycle, cycle[1:] + cycle[:1], strict=True))
        image = step | {start: step.get(end, end) for start, end in image.items()}
    moved = frozenset((start, end) for start, end in image.items() if start != end)
    return moved, "," not in text and (spaced or len(cycles) > 1)


def rewrite(text: str) -> str:
    """The formula with every mark in a notation that math-verify keeps.

    Raises:
        AmbiguousError: the meaning of a mark is unclear.
    """
    text = _UNEQUAL.sub(r"\\neq ", _BINOMIAL.sub(_binomial, text))
    text = re.sub(r"\\text\{ ?pi ?\}", r"\\pi ", text)
    text = re.sub(r"([A-Za-z]) ?" + _TRANSPOSED.pattern, r"\1_{95}", text)
    text = re.sub(r"\\text\{ ?([A-Za-z]) ?\}", r"\1", _TRANSPOSED.sub("^{t_{95}}", text))
    text = _ORDER.sub(r"\1_{98\2}", _INVERSE_FUNCTION.sub(r"\1_{94}", text))
    if not _OPERATOR.search(text):
        # The d of a fraction of differentials would be cancelled.
        text = _LONE_D.sub("d_{97}", _DIFFERENTIAL.sub(r"\2_{97\1}", text))
    text = _PRIMED.sub(lambda m: f"{m[1]}_{{{90 + len(m[2] or '') + m[0].count('prime')}}}", text)
    if "'" in text or "\\prime" in text or "!!!" in text:
        raise AmbiguousError("a mark whose meaning is not plain")
    return _without_degrees(_DOUBLE.sub(_double_factorial, text))


def _binomial(found: re.Match[str]) -> str:
    above, below = [part for part in found.groups() if part][:: -1 if found[5] else 1]
    return f"\\binom{{{above}}}{{{below}}}"


def _double_factorial(mark: re.Match[str]) -> str:
    if mark[1].isdecimal() and int(mark[1]) <= _MAX_DOUBLE_FACTORIAL:
        return f"({math.prod(range(int(mark[1]), 0, -2))})"
    if mark[1].isalpha():
        return f"{mark[1]}_{{96}}"
    raise AmbiguousError("a double factorial of a formula")


def _without_degrees(text: str) -> str:
    """Convert degrees inside functions to radians; drop them elsewhere."""
    if not _FUNCTION.search(text):
        return text.replace("^\\circ", "")
    text = _DEGREES.sub(r"(\\frac{\1\\pi}{180})", text)
    if "^\\circ" in text:
        raise AmbiguousError("a degree whose angle is not plain")
    return text


def readings(text: str) -> tuple[str, ...]:
    """The possible readings of a formula: two if a product follows a slash, else one."""
    close, wide, rest = "", "", text
    while "/" in rest:
        before, _, rest = rest.partition("/")
        close, wide = f"{close}{before}/", f"{wide}{before}/"
        first, product = _FACTOR.match(rest), _FACTORS.match(rest)
        if first is None or product is None:
            continue
        more, rest = rest[first.end() : product.end()], rest[product.end() :]
        close += f"({first[0]})\\cdot {more}" if more else first[0]
        wide += f"({first[0]}{more})" if more else first[0]
    return (close + rest, wide + rest) if close != wide else (text,)
