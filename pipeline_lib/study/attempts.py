"""Judged attempts at problems, and what each cost: the record that every evaluation keeps."""

import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from pipeline_lib.records import Row
from pipeline_lib.store import shards

ATTEMPTS_KIND = "attempts"
MAIN = "main"
"""Name of the problem set of a run of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Tokens and seconds of one attempt, or of the attempts at one problem. All figures may be means."""

    drawn: float = 0.0
    """Drawn tokens."""
    prompt: float = 0.0
    """Tokens of the prompts that were read, also by a scorer."""
    critical: float = 0.0
    """Tokens of the longest chain of draws that depend on each other."""
    longest: float = 0.0
    """Tokens of the longest sequence, prompt included where it is known."""
    seconds: float | None = None
    """Seconds of processors, or of GPUs; None if unknown."""

    @classmethod
    def mean(cls, costs: Sequence[Self]) -> Self:
        """The mean of each figure; ZeroDivisionError: there are no costs."""
        known = [one.seconds for one in costs if one.seconds is not None]
        count = len(costs)
        return cls(
            drawn=sum(one.drawn for one in costs) / count,
            prompt=sum(one.prompt for one in costs) / count,
            critical=sum(one.critical for one in costs) / count,
            longest=sum(one.longest for one in costs) / count,
            seconds=sum(known) / count if len(known) == count else None,
        )

    @property
    def total(self) -> float:
        """Drawn and prompt tokens."""
        return self.drawn + self.prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One judged attempt of an arm at a problem."""

    problem_id: str
    arm: str
    """Unique name of the arm."""
    sample: int
    """From 0, by arm and problem."""
    right: bool | None
    """By the strict rule; None: it could not be judged."""
    cost: Cost
    lenient: bool | None = None
    score: float | None = None
    """None where the kind of the problem has none."""
    answer: str | None = None
    set: str = MAIN
    """Name of the problem set."""
    extra: Mapping[str, float] = field(default_factory=dict)
    """Further numbers of the system."""

    def row(self) -> Row:
        """Flat form; ``extra`` becomes a JSON string."""
        return {
            "problem_id": self.problem_id,
            "arm": self.arm,
            "set": self.set,
            "sample": self.sample,
            "right": self.right,
            "lenient": self.lenient,
            "score": self.score,
            "answer": self.answer,
            "drawn": self.cost.drawn,
            "prompt": self.cost.prompt,
            "critical": self.cost.critical,
            "longest": self.cost.longest,
            "seconds": self.cost.seconds,
            "extra": json.dumps(dict(self.extra), sort_keys=True),
        }


def write_attempts(
    folder: pathlib.Path, attempts: Iterable[Attempt], *, key: str = ATTEMPTS_KIND
) -> None:
    """Write the table of attempts, sealed; one shard of them is in memory at a time."""
    shards.write_table(folder, (one.row() for one in attempts), kind=ATTEMPTS_KIND, key=key)


def by_problem(attempts: Iterable[Attempt]) -> dict[str, list[Attempt]]:
    """The attempts at each problem, in the order in which the problems come first."""
    found: dict[str, list[Attempt]] = {}
    for one in attempts:
        found.setdefault(one.problem_id, []).append(one)
    return found


class Posed(Protocol):
    """A `Problem`, or another question with an answer, as of a puzzle."""

    def row(self) -> Row:
        """Flat form, with ``id``, ``kind``, ``question`` and ``gold``."""


def problem_rows(problems: Iterable[Posed], *, set_name: str = MAIN) -> list[dict[str, Any]]:
    """Rows by which problems of different workspaces are joined: id, kind, question and gold."""
    return [
        {name: row[name] for name in ("id", "kind", "question", "gold")} | {"set": set_name}
        for row in (problem.row() for problem in problems)
    ]
