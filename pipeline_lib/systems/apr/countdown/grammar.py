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
    """Implements ThreadGrammar for the texts of one style, or of any."""

    style: Style | None = None
    """None: the style of each text; only published ones number their nodes."""

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
        style = self.style
        if style is None:
            numbered = any(map(lines.GENERATED_LINE.fullmatch, text.split("\n")))
            style = "published" if numbered else "compact"
        nodes = _listed_nodes(text) if style == "compact" else _generated_nodes(text)
        return {name: f"{lines.move(name)}\n{lines.state(*state)}" for name, state in nodes}


_State = tuple[int, tuple[int, ...], tuple[str, ...]]
"""Target, numbers and operations of a node."""


def _listed_nodes(text: str) -> Iterator[tuple[str, _State]]:
    """Compact: the operations of the root, in order; those of results are behind a join."""
    own, _, _ = text.partition(f"\n{lines.JOIN}\n")
    state = lines.STATE_LINE.search(own)
    if state is None:
        return
    explored = [line for line in own.split("\n") if line.startswith(lines.EXPLORE)]
    for number, line in enumerate(explored):
        found = lines.EXPLORE_LINE.fullmatch(line)
        if found is not None:
            numbers = lines.read_numbers(found["numbers"])
            yield f"0,{number}", (int(state["target"]), numbers, (found["operation"],))


def _generated_nodes(text: str) -> Iterator[tuple[str, _State]]:
    """Published: the nodes with a state or a number of their own; of two with one id, the first."""
    known: dict[str, _State] = {}
    moved = None
    for line in text.split("\n"):
        state, generated = lines.STATE_LINE.fullmatch(line), lines.GENERATED_LINE.fullmatch(line)
        if state is not None and moved is not None:
            numbers = lines.read_numbers(state["numbers"])
            operations = lines.read_operations(state["operations"])
            known.setdefault(moved, (int(state["target"]), numbers, operations))
        elif generated is not None:
            parent = known.get(generated["node"].rpartition(",")[0])
            if parent is not None:
                numbers = lines.read_numbers(generated["numbers"])
                operations = (*parent[2], generated["operation"])
                known.setdefault(generated["node"], (parent[0], numbers, operations))
        turned = lines.MOVE_LINE.fullmatch(line)
        moved = turned["node"] if turned else None
    yield from known.items()
