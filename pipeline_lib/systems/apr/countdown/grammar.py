"""The grammar of Countdown threads: spawn blocks, results and joins. Texts are parsed, never evaluated."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipeline_lib.systems.apr.countdown import lines
from pipeline_lib.systems.apr.countdown.sequences import Style
from pipeline_lib.systems.apr.threads import Child, Spawn

_UNREADABLE = "?"
"""Name of a child whose line in the spawn block is none of the grammar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountdownGrammar:
    """Implements ThreadGrammar for the texts of one style."""

    style: Style

    @property
    def forbidden(self) -> Mapping[str, str]:
        """A join is written by the runtime alone; where a model begins one, it is made to spawn.

        First with its line feed, which is part of the token: a cut within a token loses the sequence's ids.
        """
        return {f"\n{lines.JOIN}": f"\n{lines.CALL}", lines.JOIN: lines.CALL}

    @property
    def terminators(self) -> Collection[str]:
        """None: models are trained to end behind a spawn block."""
        return ()

    def find_spawn(self, text: str) -> Spawn | None:
        """The spawn block that ends ``text``; a child whose node is unknown has no prompt."""
        before, called, block = text.rstrip("\n").rpartition(f"\n{lines.CALL}\n")
        *started, end = block.split("\n")
        if not called or end != lines.END_CALL:
            return None
        condition, plain = lines.split_condition(before)
        kept = condition if lines.is_token_budget(condition) else ""
        prompts = self._prompts(plain)
        names = [
            found["node"] if found else _UNREADABLE
            for found in map(lines.START_LINE.fullmatch, started)
        ]
        children = []
        for name in names:
            prompt = prompts.get(name)
            children.append(Child(name=name, prompt=None if prompt is None else kept + prompt))
        return Spawn(before=before, children=children)

    def read_result(self, output: str) -> str | None:
        """The summary path at the end of a child's output."""
        return lines.read_result(output)

    def join(self, spawn: Spawn, results: Sequence[str | None]) -> str:
        """The parent's text with the join in the place of the spawn block."""
        block = lines.join([child.name for child in spawn.children], results)
        return "\n".join([spawn.before, *block])

    def _prompts(self, text: str) -> dict[str, str]:
        """Prompts of the threads at all nodes that ``text`` defines, by node."""
        read = _listed_nodes if self.style == "compact" else _generated_nodes
        return {
            node.id: "\n".join(
                [lines.move(node.id), lines.state(node.target, node.numbers, node.operations)]
            )
            for node in read(text)
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    id: str
    target: int
    numbers: tuple[int, ...]
    operations: tuple[str, ...]


def _listed_nodes(text: str) -> Iterator[_Node]:
    """Compact: the operations of the root, in order; those of results are behind a join."""
    own, _, _ = text.partition(f"\n{lines.JOIN}\n")
    state = lines.STATE_LINE.search(own)
    if state is None:
        return
    explored = [line for line in own.split("\n") if line.startswith(lines.EXPLORE)]
    for number, line in enumerate(explored):
        found = lines.EXPLORE_LINE.fullmatch(line)
        if found is not None:
            yield _Node(
                id=f"0,{number}",
                target=int(state["target"]),
                numbers=lines.read_numbers(found["numbers"]),
                operations=(found["operation"],),
            )


def _generated_nodes(text: str) -> Iterator[_Node]:
    """Published: the nodes with a state or a number of their own; of two with one id, the first."""
    known: dict[str, _Node] = {}
    moved = None
    for line in text.split("\n"):
        node = _read_node(line, moved, known)
        if node is not None:
            known.setdefault(node.id, node)
        turned = lines.MOVE_LINE.fullmatch(line)
        moved = turned["node"] if turned else None
    yield from known.values()


def _read_node(line: str, moved: str | None, known: Mapping[str, _Node]) -> _Node | None:
    """The node that a line defines; ``moved``: the node that the line before turns to."""
    state = lines.STATE_LINE.fullmatch(line)
    if state is not None and moved is not None:
        return _Node(
            id=moved,
            target=int(state["target"]),
            numbers=lines.read_numbers(state["numbers"]),
            operations=lines.read_operations(state["operations"]),
        )
    generated = lines.GENERATED_LINE.fullmatch(line)
    if generated is None:
        return None
    parent = known.get(generated["node"].rpartition(",")[0])
    if parent is None:
        return None
    return _Node(
        id=generated["node"],
        target=parent.target,
        numbers=lines.read_numbers(generated["numbers"]),
        operations=(*parent.operations, generated["operation"]),
    )
