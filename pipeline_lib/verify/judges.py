"""Judges: one verdict per (gold, text) of a kind; opened by the name in the kind's specification.

Only this module and `golds` import by name, because stage keys must cover these imports.
"""

import pkgutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from pipeline_lib.kinds.kind import G, Kind
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.verdicts import Verdict, timed_verdict

AnswerForm = Callable[[str], str | None]
_Gold_contra = TypeVar("_Gold_contra", contravariant=True)


class Judge(Protocol[_Gold_contra]):
    """Judges batches of one kind."""

    def judge(self, pairs: Sequence[tuple[_Gold_contra, str]]) -> list[Verdict]:
        """One verdict per (gold, text), in order; never raises because of an item."""


class JudgeOpener(Protocol):
    """Opens the judge of one kind."""

    def __call__(self, params: VerifyParams, *, workers: int) -> AbstractContextManager[Judge[Any]]:
        """Open a judge with the limits of ``params`` and ``workers`` processes, if it needs any.

        Return an object, not a generator: a forked child drops its parent's verifiers, and closing
        a generator would shut down the parent's processes.
        """


@dataclass(frozen=True, slots=True)
class _PureJudge(Generic[G]):
    verdict: Callable[[G, str], Verdict]

    def judge(self, pairs: Sequence[tuple[G, str]]) -> list[Verdict]:
        return [timed_verdict(partial(self.verdict, gold, text)) for gold, text in pairs]


def pure_judge_opener(verdict: Callable[[G, str], Verdict]) -> JudgeOpener:
    """The opener of a judge that is a pure function; its exceptions become verifier_error."""

    def open_judge(params: VerifyParams, *, workers: int) -> AbstractContextManager[_PureJudge[G]]:
        del params, workers
        return nullcontext(_PureJudge(verdict))

    return open_judge


def judge_opener(kind: Kind[Any]) -> JudgeOpener:
    """The opener of the judge of ``kind``."""
    named = kind.judge
    return pkgutil.resolve_name(named) if isinstance(named, str) else pure_judge_opener(named)


def answer_form(kind: Kind[Any]) -> AnswerForm | None:
    """The function that extracts answers of ``kind``; None if they are never equal."""
    named = kind.answer_form
    return pkgutil.resolve_name(named) if isinstance(named, str) else named
