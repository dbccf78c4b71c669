"""Verifier of mixed batches: dispatches each item to the judge of its kind.

No item makes a batch raise. A judge is opened at the first item of its kind and closed with the
verifier.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from pipeline_lib.kinds.kind import Gold, Kind
from pipeline_lib.kinds.table import kind_of
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.verdicts import Status, Verdict
from pipeline_lib.verify.judges import Judge, judge_opener


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

    def judge(self, items: Sequence[Item]) -> list[Verdict]:
        """One verdict per item, in order.

        Raises:
            SandboxUnavailableError: an item is code, and no sandbox tier passes its self-test.
        """
        verdicts = [_without_text(item.failure) for item in items]
        by_kind: dict[Kind[Any], dict[int, tuple[Gold, str]]] = {}
        for position, item in enumerate(items):
            if item.text is not None and item.failure is None:
                by_kind.setdefault(kind_of(item.gold), {})[position] = (item.gold, item.text)
        for kind, pairs in by_kind.items():
            judged = self._judge_of(kind).judge(list(pairs.values()))
            for position, verdict in zip(pairs, judged, strict=True):
                verdicts[position] = verdict
        return verdicts

    def _judge_of(self, kind: Kind[Any]) -> Judge[Any]:
        if kind not in self._judges:
            opened = judge_opener(kind)(self._params, workers=self._workers)
            self._judges[kind] = self.enter_context(opened)
            self.callback(self._judges.pop, kind)
        return self._judges[kind]


def _without_text(failure: str | None) -> Verdict:
    if failure is not None:
        return Verdict(status=Status.VERIFIER_ERROR, strict=None, lenient=None, detail=failure)
    return Verdict(status=Status.MALFORMED, strict=False, lenient=False, detail="no text at all")


def open_verifier(params: VerifyParams, *, workers: int = 1) -> Verifier:
    """Create a verifier; ``workers`` is the number of processes of a kind that needs any."""
    return Verifier(params, workers=workers)
