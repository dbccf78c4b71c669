"""The glossary: Problem, Path, Group, Pair; golds are in `kinds`, verdicts in `verdicts`.

Values only: frozen, slotted, keyword-only. A record converts to and from a flat row of str, int, float,
bool, None and lists of numbers; `storage` reads and writes the rows.
A data-set item is a Problem, a sampled chain is a Path; "task" always means a Prefect task.
"""

import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from pipeline_lib.kinds.kind import Gold, Kind
from pipeline_lib.kinds.table import KINDS, kind_of
from pipeline_lib.verdicts import Verdict

Row = dict[str, Any]


class FinishReason(StrEnum):
    """Reason for the end of a path. ERROR: the request failed, and the text is empty."""

    STOP = "stop"
    LENGTH = "length"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A question with its gold; ``solution`` is a worked solution, if one is known."""

    id: str
    question: str
    gold: Gold
    source: str
    solution: str | None = None
    columns: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Further columns of its row in the data set; JSON values."""
    turns: tuple[tuple[str, str], ...] = ()
    """Role and content of each message, if messages ask; the last is the user's. ``question`` is their text, without
    the system's."""
    is_whole_prompt: bool = False
    """The messages are the prompt as it is, without an answer format behind them."""
    where: str = field(default="", compare=False)
    """Place in its source, for errors; not part of the row."""

    @property
    def kind(self) -> Kind[Any]:
        """The kind of the gold's type."""
        return kind_of(self.gold)

    def row(self) -> Row:
        """Flat form; the gold becomes a JSON string."""
        return {
            "id": self.id,
            "kind": self.kind.name,
            "question": self.question,
            "gold": json.dumps(dataclasses.asdict(self.gold), sort_keys=True),
            "source": self.source,
            "solution": self.solution,
            "columns": json.dumps(dict(self.columns), sort_keys=True) if self.columns else None,
            **({"turns": json.dumps(self.turns)} if self.turns else {}),
            **({"is_whole_prompt": True} if self.is_whole_prompt else {}),
        }

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Inverse of :meth:`row`."""
        return cls(
            id=row["id"],
            question=row["question"],
            gold=KINDS[row["kind"]].restore_gold(json.loads(row["gold"])),
            source=row["source"],
            solution=row["solution"],
            columns=json.loads(row.get("columns") or "{}"),
            turns=tuple((role, text) for role, text in json.loads(row.get("turns") or "[]")),
            is_whole_prompt=bool(row.get("is_whole_prompt")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Origin of a path; enough to draw it again."""

    model: str
    """Digest of the weights (or the server's model id)."""
    template: str
    """Digest of the prompt template."""
    seed: int
    temperature: float
    top_p: float
    max_new_tokens: int
    adapter: str | None = None
    """``name@version`` of the LoRA adapter, if one was active."""
    engine: str | None = None
    """The same seed gives other tokens in another engine. None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Serving statistics of one path; they differ between runs, so no digest covers them."""

    latency_s: float
    """From sending the request to its last token, other paths of the same request included."""
    cached_tokens: int = 0
    """Prompt tokens taken from the engine's prefix cache."""
    opens_request: bool = False
    """First path of its request; the prompt is computed once per request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """One sampled chain of reasoning for one problem."""

    problem_id: str
    index: int
    text: str
    finish_reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    logprob: float | None
    """Sum of the natural-log probabilities of the completion's tokens; None if not reported."""
    provenance: Provenance
    error: str | None = None
    token_ids: tuple[int, ...] | None = None
    """The drawn tokens, the end token included; None unless `sample.keep_tokens`, or if not reported."""
    token_logprobs: tuple[float, ...] | None = None
    """Natural-log probabilities of the tokens; ``logprob`` is their sum. None as ``token_ids``."""
    service: Service | None = field(default=None, compare=False)
    """Not part of the row; `sampling.accounting` records it with the run's events."""

    @property
    def id(self) -> str:
        """Unique within a data set."""
        return f"{self.problem_id}#{self.index}"

    def row(self) -> Row:
        """Flat form; the provenance's fields are columns of the same row."""
        row = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        del row["provenance"], row["service"]
        row["finish_reason"] = self.finish_reason.value
        return row | dataclasses.asdict(self.provenance)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Inverse of :meth:`row`; further columns are ignored."""
        apart = {"provenance", "service"}
        names = {f.name for f in dataclasses.fields(cls)} - apart
        own = {name: row[name] for name in names & row.keys()}
        for name in ("token_ids", "token_logprobs"):
            if own.get(name) is not None:
                own[name] = tuple(own[name])
        own["finish_reason"] = FinishReason(own["finish_reason"])
        origin = {f.name: _shared(row[f.name]) for f in dataclasses.fields(Provenance)}
        return cls(**own, provenance=Provenance(**origin))


def _shared(value: Any) -> Any:
    """One object for equal strings: all paths of a draw have the same digests."""
    return sys.intern(value) if isinstance(value, str) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPath:
    """A path with its verdict."""

    path: Path
    verdict: Verdict

    def is_right(self, *, strict: bool) -> bool:
        """By the strict or the lenient score; False without one."""
        return bool(self.verdict.strict if strict else self.verdict.lenient)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """All judged paths of one problem: the unit of GRPO, of pass@k and of voting."""

    problem: Problem
    members: Sequence[JudgedPath]

    def scored(self) -> list[JudgedPath]:
        """Members with a score; a failed request or verifier is left out, not counted as wrong."""
        return [member for member in self.members if member.verdict.lenient is not None]

    def num_correct(self, *, strict: bool) -> int:
        """Number of scored members that are right by the strict or the lenient score."""
        return sum(member.is_right(strict=strict) for member in self.scored())


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A preference: one right and one wrong path of the same problem."""

    problem: Problem
    chosen: JudgedPath
    rejected: JudgedPath


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An estimate with its confidence bounds."""

    value: float
    low: float
    high: float
    level: float = 0.95

    def row(self) -> Row:
        """As in files of metrics; the level is a setting there."""
        return {"value": self.value, "low": self.low, "high": self.high}
