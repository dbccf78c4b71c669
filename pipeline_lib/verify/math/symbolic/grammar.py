"""Faster LaTeX parsing for math-verify, with the same results.

Its grammar needs full-context prediction at nearly every comma and bracket, which is not cached.
Prediction without context (SLL) either fails or gives the same tree, because the start rule ends
with the text. Also, every numeral is compiled as a Python expression in a namespace into which all
of SymPy is imported again. Imported by workers only.

math-verify's own deadlines are off because they use alarms of the calling thread. The worker sets
an alarm, and the pool kills a worker that does not react to it.

Source: Parr, Harwell, Fisher, "Adaptive LL(*) Parsing", 2014 (two-stage parsing).
"""

import functools
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import sympy
from antlr4.atn.PredictionMode import PredictionMode  # type: ignore[import-untyped]
from latex2sympy2_extended import NormalizationConfig, latex2sympy2
from math_verify import LatexExtractionConfig, parse

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
