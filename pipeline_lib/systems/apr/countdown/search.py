"""Nodes of a Countdown search, their successors and the heuristic; threads and traces that a search writes.

A node holds the numbers that are left after some operations. An operation replaces two numbers by one
result, which becomes the last number; the others stay in order. Neither texts nor an order of exploration.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

Numbers = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """A state of the search, with the way that leads to it."""

    id: str
    """``0`` for the root; a child adds its number, as in ``0,2``. Empty until the node is numbered."""
    numbers: Numbers
    cost: int
    """Value of the heuristic; lower is better."""
    operation: str | None = None
    """As in ``8-3=5``; None for the root."""
    parent: Node | None = None

    @property
    def path(self) -> list[Node]:
        """The nodes from the root to this one."""
        return [*(self.parent.path if self.parent else ()), self]

    @property
    def operations(self) -> list[str]:
        """The operations from the root, in order."""
        return [node.operation for node in self.path if node.operation is not None]

    @property
    def depth(self) -> int:
        """Number of operations from the root."""
        return len(self.path) - 1

    @property
    def is_final(self) -> bool:
        """True if one number is left."""
        return len(self.numbers) == 1

    def numbered(self, number: int) -> Node:
        """The node as the child ``number`` of its parent."""
        assert self.parent is not None
        return replace(self, id=f"{self.parent.id},{number}")


def make_root(numbers: Sequence[int], target: int) -> Node:
    """The node of a problem."""
    return Node(id="0", numbers=tuple(numbers), cost=estimate(tuple(numbers), target))


def estimate(numbers: Numbers, target: int) -> int:
    """Heuristic: the sum over the numbers of the distance to the nearest factor (2 or more) of the target."""
    factors = _factors(target)
    return sum(min(abs(number - factor) for factor in factors) for number in numbers)


@functools.cache
def _factors(target: int) -> tuple[int, ...]:
    return tuple(factor for factor in range(2, target + 1) if target % factor == 0)


def successors(node: Node, target: int) -> list[Node]:
    """All nodes that one operation leads to, by heuristic; ties in the order of the pairs."""
    found = []
    for i, j in itertools.combinations(range(len(node.numbers)), 2):
        rest = tuple(number for k, number in enumerate(node.numbers) if k not in {i, j})
        for operation, result in _combine(node.numbers[i], node.numbers[j]):
            numbers = (*rest, result)
            cost = estimate(numbers, target)
            found.append(Node(id="", numbers=numbers, cost=cost, operation=operation, parent=node))
    return sorted(found, key=lambda successor: successor.cost)


def _combine(first: int, second: int) -> Iterator[tuple[str, int]]:
    """The operations on a pair, with their results; no result is negative or a fraction."""
    yield f"{first}+{second}={first + second}", first + second
    yield f"{first}*{second}={first * second}", first * second
    small, large = sorted((first, second))
    yield f"{large}-{small}={large - small}", large - small
    if small and large % small == 0:
        yield f"{large}/{small}={large // small}", large // small


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
