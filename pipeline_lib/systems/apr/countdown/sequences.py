"""A sequence of a trace: what a thread is given, and what it writes; and the writer of a thread's lines."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Role = Literal["parent", "child"]
Kind = Literal["parallel", "serial"]
Style = Literal["compact", "published"]
KINDS: tuple[Kind, ...] = ("parallel", "serial")


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSequence:
    """One drawn segment of a thread."""

    role: Role
    round: int
    """Joins before it: of the parent's segments, or of the parent when it spawned the child."""
    child: int | None
    """Place of a child in its spawn block; None for the parent."""
    prefix: str
    """Prompt, or the text up to the end of the last join; without a condition."""
    output: str
    solved: bool
    """A child: it found a solution. A segment of the parent: the trace found one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The sequences of one problem."""

    sequences: Sequence[TraceSequence]
    solved: bool
    spawned: Sequence[int] = ()
    """Number of children of each spawn block."""


@dataclass(slots=True, kw_only=True)
class Thread:
    """The lines of a thread while its search goes on."""

    given: list[str]
    """Lines of the prefix."""
    written: list[str] = field(default_factory=list)

    def write(self, *lines: str) -> None:
        """Add lines that the model is to write."""
        self.written += lines

    def sequence(
        self, *, round_number: int, solved: bool, child: int | None = None
    ) -> TraceSequence:
        """The thread as a segment of the parent, or as child number ``child`` of its spawn block."""
        return TraceSequence(
            role="parent" if child is None else "child",
            round=round_number,
            child=child,
            prefix="\n".join(self.given),
            # What a model writes begins with a line feed.
            output="".join(f"\n{line}" for line in self.written),
            solved=solved,
        )
