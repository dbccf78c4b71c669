"""math-verify's reading of LaTeX made quicker; what it reads stays the same.

Its grammar makes the parser predict with the full context at nearly every comma and bracket, work
that no cache keeps. Prediction without context (SLL) either fails or gives the same tree, because
the start rule ends with the text. And every numeral is compiled as a Python expression, in a name
space into which all of SymPy is imported anew. Only the worker process imports this module.

Source: Parr, Harwell, Fisher, "Adaptive LL(*) Parsing", 2014 (two-stage parsing).
"""

from dataclasses import replace
from typing import Any

import sympy
from antlr4.atn.PredictionMode import PredictionMode  # type: ignore[import-untyped]
from latex2sympy2_extended import latex2sympy2


class _TwoStageParser:
    """A parser that predicts without context first, and in full only where that fails."""

    def __init__(self, parser: Any) -> None:
        self._parser = parser

    def math(self) -> Any:
        """The tree of the whole text.

        Raises:
            Exception: the text is not in the grammar; the parser's listener raises no other class.
        """
        parser = self._parser
        # All tokens first: behind an error of the lexer the second stage would read on.
        parser.getTokenStream().fill()
        parser._interp.predictionMode = PredictionMode.SLL  # noqa: SLF001 - it has no setter
        try:
            return parser.math()
        except Exception:  # noqa: BLE001 - as raised by the listener
            parser.reset()
            parser._interp.predictionMode = PredictionMode.LL  # noqa: SLF001
            return parser.math()


class QuickReader(latex2sympy2._Latex2Sympy):  # type: ignore[misc]  # noqa: SLF001 - no other seam
    """The converter from LaTeX to SymPy, with the two slow steps replaced."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        # A capital letter is another letter.
        self.config: Any = replace(vars(self)["config"], lowercase_symbols=False)

    def create_parser(self, latex_str: str) -> _TwoStageParser:
        """A parser over the tokens of ``latex_str``."""
        return _TwoStageParser(super().create_parser(latex_str))

    def parse_number(self, text: str) -> Any:
        """The SymPy number that a numeral spells; integers without a detour."""
        digits = text.replace(",", "")
        if digits.isascii() and digits.isdecimal():
            return sympy.Integer(int(digits))
        return super().parse_number(text)


def install() -> None:
    """Let math-verify use it, in this process."""
    latex2sympy2._Latex2Sympy = QuickReader  # noqa: SLF001
