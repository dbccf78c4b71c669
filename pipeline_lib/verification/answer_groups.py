"""Which texts give the same answer to a problem, decided without its gold: what votes are counted by.

Mathematical answers are compared by the verifier's own equivalence, an earlier answer standing where
the gold would; Countdown solutions by their steps; grids by their cells. Two programs are never the
same answer just because they are spelled alike.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline_lib.kinds.arc import ARC
from pipeline_lib.kinds.code import CODE
from pipeline_lib.kinds.countdown import COUNTDOWN
from pipeline_lib.kinds.kind import Kind
from pipeline_lib.kinds.math import MATH, MathGold
from pipeline_lib.verification import arc_grid, countdown_expression, math_extraction
from pipeline_lib.verification.dispatch import Item, Verifier
from pipeline_lib.verification.math_normal_form import normalized

_FORMS: Mapping[Kind[Any], Callable[[str], str | None]] = {
    COUNTDOWN: countdown_expression.answer_form,
    ARC: arc_grid.answer_form,
}


@dataclass(kw_only=True)
class AnswerBook:
    """The distinct answers to one problem so far, numbered from 0 in the order in which they came."""

    kind: Kind[Any]
    verifier: Verifier
    """Used for mathematics alone."""
    _number_of: dict[str, int] = field(init=False, default_factory=dict)
    """By spelling."""
    _first: list[str] = field(init=False, default_factory=list)
    """How each answer was first spelled."""

    def number(self, text: str) -> int | None:
        """Which answer a text gives; None if it gives none."""
        form = self._form(text)
        if not form:
            return None
        if form not in self._number_of:
            known = self._equivalent(form) if self.kind is MATH else None
            if known is None:
                known = len(self._first)
                self._first.append(form)
            self._number_of[form] = known
        return self._number_of[form]

    def _form(self, text: str) -> str | None:
        if self.kind is MATH:
            found = math_extraction.extract(text)
            return normalized(found.answer) if found else None
        if self.kind is CODE:
            return f"{len(self._first)}: {text}" if text.strip() else None
        return _FORMS[self.kind](text)

    def _equivalent(self, form: str) -> int | None:
        """The earliest answer that is equal; one that cannot be compared is another."""
        verdicts = self.verifier.judge(
            [Item(gold=MathGold(answer=first), text=f"\\boxed{{{form}}}") for first in self._first]
        )
        return next((place for place, one in enumerate(verdicts) if one.lenient), None)
