"""The verdict on one text: its status, both scores, and the answer that was found.

The standard library alone: the sandbox imports this module next to model-written code, in containers
whose Python has no other package.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self


class Status(StrEnum):
    """Outcome of verification; every judged text has exactly one."""

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

    ``lenient`` scores the answer whichever extraction rule found it; ``strict`` also requires the
    format that the prompt asked for. Both are None if verification itself failed
    (``verifier_error``, or a timeout of the verifier): such a path is not scored.
    """

    status: Status
    strict: bool | None
    lenient: bool | None
    extracted: str | None = None
    rule: str | None = None
    detail: str | None = None
    """One line for a human: the assertion that failed, the limit that was exceeded."""
    seconds: float = 0.0

    def row(self) -> dict[str, Any]:
        """Flat form without ``seconds``, which differ between runs; shards stay comparable."""
        row = dataclasses.asdict(self)
        del row["seconds"]
        row["status"] = self.status.value
        return row

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Inverse of :meth:`row`; further columns are ignored."""
        names = [f.name for f in dataclasses.fields(cls) if f.name != "seconds"]
        own = {name: row[name] for name in names}
        own["status"] = Status(own["status"])
        return cls(**own)
