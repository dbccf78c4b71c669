"""The glossary: what a problem, a path, a verdict, a group and a pair are, everywhere.

Values only: frozen, slotted, keyword-only. How they are stored is `storage`'s business; a record
knows just its flat row (plain str, int, float, bool, None), so that any table format can hold it.
A data-set item is a Problem, a sampled chain is a Path; "task" always means a Prefect task.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from pipeline_lib.grids import Grid, grid_of
from pipeline_lib.verdicts import Verdict

Row = dict[str, Any]


class Kind(StrEnum):
    """What sort of answer a problem asks for, hence which verifier judges it."""

    MATH = "math"
    CODE = "code"
    COUNTDOWN = "countdown"
    ARC = "arc"


class FinishReason(StrEnum):
    """Why a path ended. ERROR means that our side failed; its text is then empty."""

    STOP = "stop"
    LENGTH = "length"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class MathGold:
    """The reference answer of a math problem, as written (LaTeX or plain)."""

    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CountdownGold:
    """Numbers to be combined, each exactly once, into the target."""

    numbers: tuple[int, ...]
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeGold:
    """Python source with asserts, or HumanEval's ``check(candidate)``, for one function."""

    entry_point: str
    tests: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArcGold:
    """The output grid of one test input of an ARC puzzle.

    Raises:
        ValueError: ``output`` is no grid of 1 to 30 by 1 to 30 colours from 0 to 9.
    """

    output: Grid

    def __post_init__(self) -> None:
        grid_of(self.output)


Gold = MathGold | CountdownGold | CodeGold | ArcGold
_GOLD_OF_KIND: Mapping[Kind, Callable[..., Gold]] = {
    Kind.MATH: MathGold,
    Kind.COUNTDOWN: CountdownGold,
    Kind.CODE: CodeGold,
    Kind.ARC: ArcGold,
}
_KIND_OF_GOLD = {
    MathGold: Kind.MATH,
    CountdownGold: Kind.COUNTDOWN,
    CodeGold: Kind.CODE,
    ArcGold: Kind.ARC,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One question with the gold that decides it. ``solution`` is a worked one, where known."""

    id: str
    question: str
    gold: Gold
    source: str
    solution: str | None = None

    @property
    def kind(self) -> Kind:
        """The kind follows from the gold, so the two cannot disagree."""
        return kind_of(self.gold)

    def row(self) -> Row:
        """Flat form; the gold becomes a JSON string."""
        return {
            "id": self.id,
            "kind": self.kind.value,
            "question": self.question,
            "gold": json.dumps(dataclasses.asdict(self.gold), sort_keys=True),
            "source": self.source,
            "solution": self.solution,
        }

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Inverse of :meth:`row`."""
        return cls(
            id=row["id"],
            question=row["question"],
            gold=gold_from(Kind(row["kind"]), json.loads(row["gold"])),
            source=row["source"],
            solution=row["solution"],
        )


def kind_of(gold: Gold) -> Kind:
    """The kind of the problems that have such a gold."""
    return _KIND_OF_GOLD[type(gold)]


def gold_from(kind: Kind, fields: Mapping[str, Any]) -> Gold:
    """Build the gold of ``kind`` from plain fields (lists become tuples, nested ones too)."""
    return _GOLD_OF_KIND[kind](**{name: _frozen(value) for name, value in fields.items()})


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where a path came from; enough to draw it again."""

    model: str
    """Digest of the weights (or the server's model id)."""
    template: str
    """Digest of the prompt template."""
    seed: int
    temperature: float
    top_p: float
    max_new_tokens: int
    adapter: str | None = None
    """``name@version`` of the LoRA adapter that drew it, if one did."""
    engine: str | None = None
    """What drew it: the same seed gives other tokens in another engine. None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """How an engine served one path: it differs from run to run, so no digest covers it."""

    latency_s: float
    """From sending its request to the whole answer, paths of the same request included."""
    cached_tokens: int = 0
    """Those of its prompt's tokens that the engine had computed before."""
    opens_request: bool = False
    """Another request than that of the path before it, so the prompt was paid for once more."""


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
    service: Service | None = field(default=None, compare=False)
    """Stands in no row; `sampling.accounting` keeps it beside the run's events."""

    @property
    def id(self) -> str:
        """Unique within a data set."""
        return f"{self.problem_id}#{self.index}"

    def row(self) -> Row:
        """Flat form; the provenance's fields stand beside the path's own."""
        row = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        del row["provenance"], row["service"]
        row["finish_reason"] = self.finish_reason.value
        return row | dataclasses.asdict(self.provenance)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Inverse of :meth:`row`; further columns are ignored."""
        apart = {"provenance", "service"}
        own = {f.name: row[f.name] for f in dataclasses.fields(cls) if f.name not in apart}
        own["finish_reason"] = FinishReason(own["finish_reason"])
        provenance = Provenance(**{f.name: row[f.name] for f in dataclasses.fields(Provenance)})
        return cls(**own, provenance=provenance)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPath:
    """A path together with its verdict."""

    path: Path
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """All judged paths of one problem: the unit of GRPO, of pass@k and of voting."""

    problem: Problem
    members: Sequence[JudgedPath]

    def scored(self) -> list[JudgedPath]:
        """Members that were judged at all; our own failures are left out, never counted wrong."""
        return [member for member in self.members if member.verdict.lenient is not None]

    def num_correct(self, *, strict: bool) -> int:
        """How many scored members are right, by the strict or the lenient score."""
        scored = self.scored()
        return sum(bool(m.verdict.strict if strict else m.verdict.lenient) for m in scored)


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
