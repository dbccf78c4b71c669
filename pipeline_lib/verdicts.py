"""The verdict on one text: status, strict and lenient score, extracted answer.

Standard library only: the sandbox imports this module in a Python without other packages.
"""

import dataclasses
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Self

_QUOTED = re.compile("'[^']*'")
_MAX_DETAIL_CHARS = 200
_COST = ("seconds", "judge_tokens")


class Status(StrEnum):
    """Outcome of verification."""

    CORRECT = "correct"
    WRONG = "wrong"
    UNPARSED = "unparsed"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    OUTPUT_LIMIT = "output_limit"
    CRASHED = "crashed"
    REWARD_HACK = "reward_hack"
    MALFORMED = "malformed"
    VERIFIER_ERROR = "verifier_error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Scores of one text.

    ``lenient`` scores the answer found by any extraction rule; ``strict`` also requires the format
    that the prompt asks for. Both are None if verification itself failed (``verifier_error``, or a
    timeout of the verifier): the path is then not scored.
    """

    status: Status
    strict: bool | None
    lenient: bool | None
    extracted: str | None = None
    rule: str | None = None
    score: float | None = None
    """Graded result; None where the kind of the problem has none."""
    detail: str | None = None
    """One line for people: the failed assertion, the exceeded limit."""
    seconds: float = 0.0
    judge_tokens: tuple[int, int] = (0, 0)
    """Of a model that was asked: those of its prompts, and those that it drew."""

    @property
    def reason(self) -> str | None:
        """Why it has no score, without names, numbers and messages of one text; None if it has one."""
        if self.lenient is not None:
            return None
        what = _QUOTED.sub("...", (self.detail or "no reason given").partition(": ")[0])
        return f"{self.status.value}: {what}"

    def row(self) -> dict[str, Any]:
        """Flat form without the cost, so that shards are reproducible."""
        row = dataclasses.asdict(self)
        for name in _COST:
            del row[name]
        row["status"] = self.status.value
        return row

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Inverse of :meth:`row`; other columns are ignored."""
        names = {f.name for f in dataclasses.fields(cls)} - {*_COST}
        own = {name: row[name] for name in names & row.keys()}
        own["status"] = Status(own["status"])
        return cls(**own)


def not_judged(status: Status, detail: str) -> Verdict:
    """A verdict without scores, for a failure of the verifier; it is not scored 0."""
    return Verdict(status=status, strict=None, lenient=None, detail=detail[:_MAX_DETAIL_CHARS])


def timed_verdict(judge: Callable[[], Verdict]) -> Verdict:
    """The verdict of ``judge`` with its seconds; an exception becomes a verifier_error."""
    start = time.perf_counter()
    try:
        verdict = judge()
    except Exception as error:  # noqa: BLE001 - one item must not fail its batch
        detail = f"{type(error).__name__}: {error}".encode("ascii", "backslashreplace").decode()
        verdict = not_judged(Status.VERIFIER_ERROR, detail)
    return replace(verdict, seconds=time.perf_counter() - start)
