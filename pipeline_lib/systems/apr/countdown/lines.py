"""Nodes of a Countdown search, and the lines of the texts of its threads: written here, and read back by patterns.

A node holds the numbers that are left after some operations. An operation replaces two numbers by one
result, which becomes the last number; the others stay in order.

Lines are joined by line feeds, and a text has none at its end: a prompt ends with a whole line, and what a
model writes begins with a line feed.
"""

from __future__ import annotations

import functools
import itertools
import re
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


CALL = "<Calling Sub Searches>"
END_CALL = "<End Calling Sub Searches>"
JOIN = "<Sub Searches>"
END_JOIN = "<End Sub Searches>"
NO_SOLUTION = "No solution found."
NO_SOLUTION_IN_SUB_SEARCH = "No solution found in sub search"
GOAL = "equal: Goal Reached"
"""End of a line of success. The tags of a join contain its last two words, but not all of it."""
SUB_CALL_BUDGET = "Sub Call Budget"
TOKEN_BUDGET = "Token Budget"  # noqa: S105 - a phrase of the grammar

# Digits are bounded, so that a number of any length in a model's text is no trap for `int`.
_NUMBER = "[0-9]{1,9}"
_NODE = f"(?P<node>0(?:,{_NUMBER})*)"
_NUMBERS = rf"\[(?P<numbers>{_NUMBER}(?:, {_NUMBER})*)\]"
_OPERATION = rf"{_NUMBER}[-+*/]{_NUMBER}={_NUMBER}"
EXPLORE = "Exploring Operation: "
MOVE_LINE = re.compile(rf"Moving to Node #{_NODE}")
STATE_LINE = re.compile(
    rf"Current State: (?P<target>{_NUMBER}):{_NUMBERS}, "
    rf"Operations: \[(?P<operations>(?:'{_OPERATION}'(?:, '{_OPERATION}')*)?)\]"
)
EXPLORE_LINE = re.compile(rf"{EXPLORE}(?P<operation>{_OPERATION}), Resulting Numbers: {_NUMBERS}")
GENERATED_LINE = re.compile(
    rf"Generated Node #{_NODE}: {_NUMBER}:{_NUMBERS} Operation: (?P<operation>{_OPERATION})"
)
START_LINE = re.compile(rf"<Start Sub Search {_NUMBER} at level 1> Moving to Node #{_NODE}")
GOAL_LINE = re.compile(rf"{_NUMBER},{_NUMBER} {GOAL}")
REACHED = "<Goal Reached in Sub Search "
CONDITION = re.compile(rf"(?P<name>{SUB_CALL_BUDGET}|{TOKEN_BUDGET}): {_NUMBER} ")


def condition(name: str, amount: int) -> str:
    """A condition, as written before a prompt, on its first line."""
    return f"{name}: {amount} "


def split_condition(prompt: str) -> tuple[str, str]:
    """The condition of a prompt, empty if it has none, and the prompt without it."""
    found = CONDITION.match(prompt)
    end = found.end() if found else 0
    return prompt[:end], prompt[end:]


def move(node_id: str) -> str:
    """The line that turns to a node."""
    return f"Moving to Node #{node_id}"


def state(target: int, numbers: Sequence[int], operations: Sequence[str]) -> str:
    """The line that describes a node."""
    quoted = ", ".join(f"'{operation}'" for operation in operations)
    return f"Current State: {target}:{_listed(numbers)}, Operations: [{quoted}]"


def state_of(node: Node, target: int) -> str:
    """The line that describes ``node``."""
    return state(target, node.numbers, node.operations)


def explore(node: Node) -> str:
    """The line of the operation that leads to ``node``."""
    assert node.operation is not None
    return step(node.operation, node.numbers)


def step(operation: str, numbers: Sequence[int]) -> str:
    """The line of an operation that leaves ``numbers``."""
    return f"{EXPLORE}{operation}, Resulting Numbers: {_listed(numbers)}"


def generated(node: Node, target: int) -> str:
    """The line that numbers ``node``."""
    return (
        f"Generated Node #{node.id}: {target}:{_listed(node.numbers)} Operation: {node.operation}"
    )


def outcome(node: Node, target: int) -> str:
    """The line after the operation that leads to a final node."""
    [value] = node.numbers
    return f"{value},{target} {GOAL if value == target else 'unequal: No Solution'}"


def thread_prompt(node: Node, target: int) -> list[str]:
    """The lines of the prompt of a thread that starts at ``node``."""
    return [move(node.id), state_of(node, target)]


def call(node_ids: Sequence[str]) -> list[str]:
    """The block that spawns a child for each node."""
    started = [
        f"<Start Sub Search {place} at level 1> {move(node_id)}"
        for place, node_id in enumerate(node_ids)
    ]
    return [CALL, *started, END_CALL]


def join(node_ids: Sequence[str], results: Sequence[str | None]) -> list[str]:
    """The block that takes the place of a spawn block, once its children have ended."""
    lines = [JOIN]
    for place, (node_id, result) in enumerate(zip(node_ids, results, strict=True)):
        tag = "<No Solution in Sub Search " if result is None else REACHED
        lines.append(f"{tag}{place} at level 1 at Node #{node_id}>")
        if result is not None:
            lines.append(result)
    return [*lines, END_JOIN]


def read_result(output: str) -> str | None:
    """The text after the second-to-last line of success: a summary path; None with less than two of them.

    None as well if a line of it is a tag, since only the runtime writes those into a parent's text.
    """
    parts = output.rsplit(GOAL, 2)
    if len(parts) < 3:
        return None
    result = f"{parts[1]}{GOAL}{parts[2]}".strip()
    return None if any(line.startswith("<") for line in result.splitlines()) else result


def read_numbers(listed: str) -> tuple[int, ...]:
    """The numbers of a matched list, as in ``3, 5``."""
    return tuple(int(number) for number in listed.split(", "))


def read_operations(quoted: str) -> tuple[str, ...]:
    """The operations of a matched list, as in ``'5+3=8', '8*3=24'``."""
    return tuple(re.findall(r"[^', ]+", quoted))


def _listed(numbers: Sequence[int]) -> str:
    return f"[{', '.join(map(str, numbers))}]"
