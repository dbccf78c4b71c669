"""Grouping of texts by their answer, without a gold, for self-consistency voting.

The kind defines the comparison: by normalized spelling, by its judge with an earlier answer as the
gold, or not at all (programs are never equal).
"""

from typing import Any

from pipeline_lib.kinds.kind import Kind
from pipeline_lib.verify.dispatch import Item, Verifier
from pipeline_lib.verify.judges import answer_form


class AnswerBook:
    """The distinct answers to one problem, numbered from 0 in order of first occurrence.

    The verifier is used if the kind has an ``equality_trial``.
    """

    def __init__(self, *, kind: Kind[Any], verifier: Verifier) -> None:
        self._trial = kind.equality_trial
        self._verifier = verifier
        self._form_of = answer_form(kind) or self._unlike_any
        self._number_of: dict[str, int] = {}  # by form
        self._first: list[str] = []  # the form in which each answer first occurred

    def number(self, text: str) -> int | None:
        """The number of the answer in a text; None if there is no answer."""
        form = self._form_of(text)
        if not form:
            return None
        if form not in self._number_of:
            number = self._number_of[form] = self._earliest_equal(form)
            if number == len(self._first):
                self._first.append(form)
        return self._number_of[form]

    def _unlike_any(self, text: str) -> str | None:
        return f"{len(self._first)}: {text}" if text.strip() else None

    def _earliest_equal(self, form: str) -> int:
        """The number of the earliest equal answer, else the next; answers without a verdict are different."""
        if self._trial is not None:
            pairs = [self._trial(first, form) for first in self._first]
            verdicts = self._verifier.judge([Item(gold=gold, text=text) for gold, text in pairs])
            for number, verdict in enumerate(verdicts):
                if verdict.lenient:
                    return number
        return len(self._first)
