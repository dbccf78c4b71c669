"""Faster LaTeX parsing for math-verify, with the same results.

Its grammar needs full-context prediction at nearly every comma and bracket, which is not cached.
Prediction without context (SLL) either fails or gives the same tree, because the start rule ends
with the text. Also, every numeral is compiled as a Python expression in a namespace into which all
of SymPy is imported again. Imported by workers only.

Source: Parr, Harwell, Fisher, "Adaptive LL(*) Parsing", 2014 (two-stage parsing).
"""

from dataclasses import replace
from typing import Any

import sympy
from antlr4.atn.PredictionMode import PredictionMode  # type: ignore[import-untyped]
from latex2sympy2_extended import latex2sympy2


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
        """The exact SymPy number of a numeral; integers are converted directly."""
        digits = text.replace(",", "")
        if digits.isascii() and digits.isdecimal():
            return sympy.Integer(int(digits))
        return sympy.Rational(digits)


def install() -> None:
    """Make math-verify use `QuickReader` in this process."""
    latex2sympy2._Latex2Sympy = QuickReader  # noqa: SLF001
