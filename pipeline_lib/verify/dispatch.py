"""Verifier of mixed batches: dispatches each item to the judge of its kind, and what is built on it.

No item makes a batch raise. A judge is opened at the first item of its kind and closed with the
verifier. Above it are verdicts on sampled paths, a pool of open verifiers for workers that judge many
shards, and the grouping of texts by their answer for self-consistency voting.
"""

import atexit
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from pipeline_lib.kinds.kind import Gold, Kind
from pipeline_lib.kinds.own import OWN
from pipeline_lib.kinds.table import kind_of
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.records import Path, Problem, Row
from pipeline_lib.verdicts import Status, Verdict
from pipeline_lib.verify.judges import AnswerForm, Judge, answer_form, judge_opener
from pipeline_lib.verify.own import own_answers


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One text to judge; None if the model produced no text (null in a file)."""

    gold: Gold
    text: str | None
    failure: str | None = None
    """Why the model was not sampled, as when a request failed: the item then has no score."""


class Verifier(ExitStack):
    """Judges batches of any mixture of kinds; ``close`` ends all processes, a later batch restarts them."""

    def __init__(self, params: VerifyParams, *, workers: int) -> None:
        super().__init__()
        self._params = params
        self._workers = workers
        self._judges: dict[Kind[Any], Judge[Any]] = {}
        self._answers: AnswerForm | None = None

    def judge(self, items: Sequence[Item]) -> list[Verdict]:
        """One verdict per item, in order.

        Raises:
            SandboxUnavailableError: an item is code, and no sandbox tier passes its self-test.
        """
        verdicts = [_without_text(item.failure) for item in items]
        by_kind: dict[Kind[Any], dict[int, tuple[Gold, str]]] = {}
        for position, item in enumerate(items):
            if item.text is not None and item.failure is None:
                kind = kind_of(item.gold)
                kind = OWN if self._params.verifier and self._is_own(kind) else kind
                by_kind.setdefault(kind, {})[position] = (item.gold, item.text)
        for kind, pairs in by_kind.items():
            if kind not in self._judges:
                opened = judge_opener(kind)(self._params, workers=self._workers)
                self._judges[kind] = self.enter_context(opened)
                self.callback(self._judges.pop, kind)
            judged = self._judges[kind].judge(list(pairs.values()))
            for position, verdict in zip(pairs, judged, strict=True):
                verdicts[position] = verdict
        return verdicts

    def answer_form(self, kind: Kind[Any]) -> AnswerForm | None:
        """The function that extracts answers of ``kind``; None if they are never equal."""
        if self._params.answer is None or not self._is_own(kind):
            return answer_form(kind)
        if self._answers is None:
            self._answers = own_answers(self._params.answer, self._params.own, self)
            self.callback(setattr, self, "_answers", None)
        return self._answers

    def equality_trial(self, kind: Kind[Any]) -> Callable[[str, str], tuple[Gold, str]] | None:
        """As of the kind; answers in a form of the user's are equal if they are the same string."""
        has_own_form = self._params.answer is not None and self._is_own(kind)
        return None if has_own_form else kind.equality_trial

    def _is_own(self, kind: Kind[Any]) -> bool:
        """True if functions of the user's are for golds of ``kind``: those of a task for its own."""
        return kind is OWN or not self._params.of_task


def _without_text(failure: str | None) -> Verdict:
    if failure is not None:
        return Verdict(status=Status.VERIFIER_ERROR, strict=None, lenient=None, detail=failure)
    return Verdict(status=Status.MALFORMED, strict=False, lenient=False, detail="no text at all")


def open_verifier(params: VerifyParams, *, workers: int = 1) -> Verifier:
    """Create a verifier; ``workers`` is the number of processes of a kind that needs any."""
    return Verifier(params, workers=workers)


def judge_paths(
    paths: Sequence[Path], problems: Iterable[Problem], verifier: Verifier
) -> list[Verdict]:
    """One verdict per path, in order; a path whose request failed has no score."""
    golds = {problem.id: problem.gold for problem in problems}
    return verifier.judge(
        [
            Item(
                gold=golds[path.problem_id],
                text=path.text,
                failure=None if path.error is None else f"not sampled: {path.error}",
            )
            for path in paths
        ]
    )


TextVerdicts = Mapping[tuple[str, str], Verdict]
"""By id of a problem and text."""


def judge_texts(texts: Iterable[tuple[Problem, str]], verifier: Verifier) -> TextVerdicts:
    """The verdict on each distinct text of a problem, in one batch."""
    items = {(problem.id, text): Item(gold=problem.gold, text=text) for problem, text in texts}
    return dict(zip(items, verifier.judge([*items.values()]), strict=True))


def verdict_rows(paths: Sequence[Path], verdicts: Sequence[Verdict]) -> list[Row]:
    """Rows of the verdict table, keyed by (problem_id, index)."""
    return [
        {"problem_id": path.problem_id, "index": path.index, **verdict.row()}
        for path, verdict in zip(paths, verdicts, strict=True)
    ]


_lock = threading.Lock()
_idle: list[tuple[VerifyParams, Verifier]] = []


@contextmanager
def pooled_verifier(params: VerifyParams) -> Iterator[Verifier]:
    """A verifier with one worker, for exclusive use; returned to the pool afterwards.

    The pool grows to the number of concurrent users. Idle verifiers are closed on a request with
    other params and at exit; they die with the process if it is killed. A verifier is closed
    instead of reused if its user raised, because it may have pending items.
    """
    close_pooled_verifiers(but=params)
    with _lock:
        found = next((entry for entry in _idle if entry[0] == params), None)
        if found is not None:
            _idle.remove(found)
    verifier = open_verifier(params) if found is None else found[1]
    try:
        yield verifier
    except BaseException:
        verifier.close()
        raise
    with _lock:
        _idle.append((params, verifier))


def close_pooled_verifiers(*, but: VerifyParams | None = None) -> None:
    """Close all idle verifiers, or the ones with params other than ``but``."""
    with _lock:
        closing = [verifier for known, verifier in _idle if known != but]
        _idle[:] = [entry for entry in _idle if entry[0] == but]
    for verifier in closing:
        verifier.close()


atexit.register(close_pooled_verifiers)
# Their sockets belong to the parent: parent and child would read each other's replies.
os.register_at_fork(after_in_child=_idle.clear)


class AnswerBook:
    """The distinct answers to one problem, numbered from 0 in order of first occurrence.

    The verifier is used if the kind has an ``equality_trial``.
    """

    def __init__(self, *, kind: Kind[Any], verifier: Verifier) -> None:
        self._trial = verifier.equality_trial(kind)
        self._verifier = verifier
        self._form_of = verifier.answer_form(kind) or (
            lambda text: f"{len(self._first)}: {text}" if text.strip() else None
        )
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

    def _earliest_equal(self, form: str) -> int:
        """The number of the earliest equal answer, else the next; answers without a verdict are different."""
        if self._trial is not None:
            pairs = [self._trial(first, form) for first in self._first]
            verdicts = self._verifier.judge([Item(gold=gold, text=text) for gold, text in pairs])
            for number, verdict in enumerate(verdicts):
                if verdict.lenient:
                    return number
        return len(self._first)
