"""The searches of the compact data, for windows up to 512 tokens: depth first, no shuffle, short texts.

No operation occurs twice among the successors of a node, and no value is above ``max_value``. The parallel
root thread lists ``beam`` operations and spawns a child for each, by its number. The serial thread and the
children try ``sub_beam`` operations at each node.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline_lib.systems.apr.countdown import lines
from pipeline_lib.systems.apr.countdown.search import Node, make_root, successors
from pipeline_lib.systems.apr.countdown.sequences import Thread, Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactSearch:
    """A problem with the breadth of its search."""

    numbers: Sequence[int]
    target: int
    beam: int
    """Operations of the root thread, which spawns; not used by a serial search."""
    sub_beam: int
    """Operations at each node of the other threads."""
    max_value: int

    @property
    def root(self) -> Node:
        """The problem's node."""
        return make_root(self.numbers, self.target)

    def successors(self, node: Node, beam: int) -> list[Node]:
        """The ``beam`` best successors of ``node``, numbered."""
        distinct: dict[str | None, Node] = {}
        for successor in successors(node, self.target):
            if successor.numbers[-1] <= self.max_value:
                distinct.setdefault(successor.operation, successor)
        return [one.numbered(i) for i, one in enumerate([*distinct.values()][:beam])]

    def descend(self, node: Node, thread: Thread) -> Node | None:
        """Write the search below ``node``; the goal if it is found."""
        for successor in self.successors(node, self.sub_beam):
            thread.write(lines.explore(successor))
            if not successor.is_final:
                thread.write(*lines.thread_prompt(successor, self.target))
                goal = self.descend(successor, thread)
                if goal is not None:
                    return goal
                continue
            thread.write(lines.outcome(successor, self.target))
            if successor.numbers == (self.target,):
                return successor
        return None


def serial_trace(search: CompactSearch) -> Trace:
    """The search in one text."""
    thread, solved = _whole_search(search, search.root)
    return Trace(sequences=[thread.sequence(round_number=0, solved=solved)], solved=solved)


def parallel_trace(search: CompactSearch) -> Trace:
    """The search in threads: the root spawns them all, and claims the first path that is found."""
    root = search.root
    given = lines.thread_prompt(root, search.target)
    nodes = search.successors(root, search.beam)
    ids = [node.id for node in nodes]
    listed = [lines.explore(node) for node in nodes]
    children = []
    for place, node in enumerate(nodes):
        thread, found = _whole_search(search, node)
        children.append(thread.sequence(child=place, round_number=0, solved=found))
    solved = any(child.solved for child in children)
    results = [lines.read_result(child.output) for child in children]
    end = f"{search.target},{search.target} {lines.GOAL}" if solved else lines.NO_SOLUTION
    before = Thread(given=given, written=[*listed, *lines.call(ids)])
    after = Thread(given=[*given, *listed, *lines.join(ids, results)], written=[end])
    return Trace(
        sequences=[
            before.sequence(round_number=0, solved=solved),
            *children,
            after.sequence(round_number=1, solved=solved),
        ],
        solved=solved,
        spawned=[len(nodes)],
    )


def _whole_search(search: CompactSearch, start: Node) -> tuple[Thread, bool]:
    """The search below ``start`` with its end, a summary path or that there is none; True if it has one."""
    thread = Thread(given=lines.thread_prompt(start, search.target))
    goal = search.descend(start, thread)
    if goal is None:
        thread.write(lines.NO_SOLUTION)
    else:
        thread.write(*map(lines.explore, goal.path[1:]), lines.outcome(goal, search.target))
    return thread, goal is not None
