"""Grouping of texts by their answer, without a gold, for self-consistency voting.

The kind defines the comparison: by normalized spelling, by its judge with an earlier answer as the
gold, or not at all (programs are never equal).
"""

from dataclasses import dataclass, field
from typing import Any

from pipeline_lib.kinds.kind import Kind
from pipeline_lib.verification.dispatch import Item, Verifier
from pipeline_lib.verification.judges import AnswerForm, answer_form


@dataclass(kw_only=True)
class AnswerBook:
    """The distinct answers to one problem, numbered from 0 in order of first occurrence."""

    kind: Kind[Any]
    verifier: Verifier
    """Used if the kind has an ``equality_trial``."""
    _form_of: AnswerForm = field(init=False)
    _number_of: dict[str, int] = field(init=False, default_factory=dict)
    """By form."""
    _first: list[str] = field(init=False, default_factory=list)
    """The form in which each answer first occurred."""

    def __post_init__(self) -> None:
        self._form_of = answer_form(self.kind) or self._unlike_any

    def number(self, text: str) -> int | None:
        """The number of the answer in a text; None if there is no answer."""
        form = self._form_of(text)
        if not form:
            return None
        if form not in self._number_of:
            known = self._equivalent(form)
            if known is None:
                known = len(self._first)
                self._first.append(form)
            self._number_of[form] = known
        return self._number_of[form]

    def _unlike_any(self, text: str) -> str | None:
        return f"{len(self._first)}: {text}" if text.strip() else None

    def _equivalent(self, form: str) -> int | None:
        """The earliest equal answer, or None; answers without a verdict are different."""
        trial = self.kind.equality_trial
        if trial is None:
            return None
        pairs = [trial(first, form) for first in self._first]
        verdicts = self.verifier.judge([Item(gold=gold, text=text) for gold, text in pairs])
        return next((place for place, one in enumerate(verdicts) if one.lenient), None)
