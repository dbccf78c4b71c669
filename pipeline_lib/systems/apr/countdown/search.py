"""Nodes of a Countdown search, their successors and the heuristic. No texts, no order of exploration.

A node holds the numbers that are left after some operations. An operation replaces two numbers by one
result, which becomes the last number; the others stay in order.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

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
