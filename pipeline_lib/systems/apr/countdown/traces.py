"""Traces of two styles of searches, and their rows: the sequences of one problem with their condition.

Compact, for windows up to 512 tokens: depth first, no shuffle, short texts. No operation occurs twice among the
successors of a node, and no value is above ``max_value``. The parallel root thread lists ``beam`` operations and spawns
a child for each, by its number. The serial thread and the children try ``sub_beam`` operations at each node.

Published: best node first, with sub-searches that are spawned or serial. A thread keeps an open set, takes up to
``beam`` nodes of it at a time, and keeps the ``beam`` best successors of each. These are explored in random order. With
probability ``branch`` each of them, best first, is then searched on its own: as spawned threads (parallel, by the root
thread alone), or in turn within the same text (serial, at any depth). Otherwise they join the open set.
Source: arXiv 2504.15466, algorithms 1 and 2.

A row follows from the seed, the kind and the problem alone, so the number of workers changes nothing.
"""

import heapq
import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.params.apr import AprDataParams
from pipeline_lib.seeding import child_random
from pipeline_lib.systems.apr.countdown import lines
from pipeline_lib.systems.apr.countdown.lines import (
    Kind,
    Node,
    Thread,
    Trace,
    TraceSequence,
    make_root,
    successors,
)
from pipeline_lib.systems.apr.countdown.tokens import count_tokens


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


def compact_serial_trace(search: CompactSearch) -> Trace:
    """The search in one text."""
    thread, solved = _whole_search(search, search.root)
    return Trace(sequences=[thread.sequence(round_number=0, solved=solved)], solved=solved)


def compact_parallel_trace(search: CompactSearch) -> Trace:
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


_Goal = tuple[Node | None]
"""The goal that searches found, if they did."""
_Branch = Callable[[list[Node]], _Goal | None]
"""Searches nodes on their own, best first; None if they are to join the open set."""


@dataclass(slots=True, kw_only=True)
class _Search:
    """The search of one thread or of one serial sub-search."""

    target: int
    beam: int
    draw: random.Random
    thread: Thread
    branch: _Branch
    summary_from: int = 0
    """Depth from which a summary path starts."""
    _open: list[tuple[int, int, Node]] = field(default_factory=list)
    _order: "itertools.count[int]" = field(default_factory=itertools.count)

    def run(self, start: Node) -> Node | None:
        """The goal, if it is found."""
        self._push(start)
        while self._open:
            taken = [heapq.heappop(self._open)[2] for _ in range(min(self.beam, len(self._open)))]
            for node, following in itertools.zip_longest(taken, taken[1:]):
                goal = self._visit(node)
                if goal is not None:
                    return goal
                if following is not None:
                    self.thread.write(lines.move(following.id))
            if self._open:
                self.thread.write(lines.move(self._open[0][2].id))
        self.thread.write(lines.NO_SOLUTION)
        return None

    def _push(self, node: Node) -> None:
        heapq.heappush(self._open, (node.cost, next(self._order), node))

    def _visit(self, node: Node) -> Node | None:
        # The state of the first node may be part of the prompt.
        state = lines.state_of(node, self.target)
        if self.thread.written or self.thread.given[-1] != state:
            self.thread.write(state)
        kept = successors(node, self.target)[: self.beam]
        self.draw.shuffle(kept)
        nodes: list[Node] = []
        for successor in kept:
            self.thread.write(lines.explore(successor))
            if successor.is_final:
                self.thread.write(lines.outcome(successor, self.target))
                if successor.numbers == (self.target,):
                    self.thread.write(*summary(successor, self.target, start=self.summary_from))
                    return successor
            else:
                nodes.append(successor.numbered(len(nodes)))
                self.thread.write(lines.generated(nodes[-1], self.target))
        nodes.sort(key=lambda one: one.cost)
        branched = self.branch(nodes)
        if branched is not None:
            return branched[0]
        for one in nodes:
            self._push(one)
        return None


def summary(goal: Node, target: int, *, start: int) -> list[str]:
    """The path to ``goal`` from its ancestor at depth ``start``, each step with the state before it."""
    written = []
    for node in goal.path[start + 1 :]:
        assert node.parent is not None
        written += [lines.move(node.parent.id), lines.state_of(node.parent, target)]
        written.append(lines.explore(node))
        written.append(
            lines.outcome(node, target) if node.is_final else lines.generated(node, target)
        )
    return written


def published_serial_trace(
    numbers: Sequence[int], target: int, *, beam: int, branch: float, draw: random.Random
) -> Trace:
    """The search in one text (SoS+)."""
    root = make_root(numbers, target)
    thread = Thread(given=[lines.state_of(root, target)])

    def search(start: Node, level: int) -> Node | None:
        def in_turn(nodes: list[Node]) -> _Goal | None:
            if draw.random() >= branch:
                return None
            for node in nodes:
                thread.write(f"Start Sub Search at level {level + 1}: {lines.move(node.id)}")
                goal = search(node, level + 1)
                thread.write(f"Exit Sub Search at level {level + 1}")
                if goal is not None:
                    return (goal,)
                thread.write(lines.NO_SOLUTION_IN_SUB_SEARCH)
            return (None,)

        return _Search(target=target, beam=beam, draw=draw, thread=thread, branch=in_turn).run(
            start
        )

    solved = search(root, 0) is not None
    return Trace(sequences=[thread.sequence(round_number=0, solved=solved)], solved=solved)


def published_parallel_trace(
    numbers: Sequence[int],
    target: int,
    *,
    beam: int,
    sub_beam: int,
    branch: float,
    draw: random.Random,
) -> Trace:
    """The search in threads (APR): the root thread may spawn, its children do not."""
    root = make_root(numbers, target)
    parent = Thread(given=lines.thread_prompt(root, target))
    segments: list[Thread] = []
    children: list[list[TraceSequence]] = []

    def search_child(place: int, node: Node) -> tuple[Node | None, TraceSequence]:
        thread = Thread(given=lines.thread_prompt(node, target))
        goal = _Search(
            target=target,
            beam=sub_beam,
            draw=draw,
            thread=thread,
            branch=lambda _nodes: None,
            summary_from=node.depth,
        ).run(node)
        found = thread.sequence(child=place, round_number=len(children), solved=goal is not None)
        return goal, found

    def spawn(nodes: list[Node]) -> _Goal | None:
        """Search all nodes in threads, and join them."""
        if len(nodes) < 2 or draw.random() >= branch:
            return None
        ids = [node.id for node in nodes]
        searched = [search_child(place, node) for place, node in enumerate(nodes)]
        children.append([sequence for _, sequence in searched])
        results = [
            None if goal is None else "\n".join(summary(goal, target, start=node.depth))
            for node, (goal, _) in zip(nodes, searched, strict=True)
        ]
        written = [*parent.written, *lines.call(ids)]
        segments.append(Thread(given=[*parent.given], written=written))
        parent.given += [*parent.written, *lines.join(ids, results)]
        parent.written.clear()
        reached = next((goal for goal, _ in searched if goal is not None), None)
        if reached is not None:
            parent.write(lines.outcome(reached, target), *summary(reached, target, start=0))
        return (reached,)

    search = _Search(target=target, beam=beam, draw=draw, thread=parent, branch=spawn)
    goal = search.run(root)
    sequences: list[TraceSequence] = []
    for number, segment in enumerate([*segments, parent]):
        sequences.append(segment.sequence(round_number=number, solved=goal is not None))
        sequences += children[number] if number < len(children) else []
    return Trace(sequences=sequences, solved=goal is not None, spawned=[*map(len, children)])


BUDGET_BINS = {"compact": 32, "published": 512}
"""Tokens by which a token budget is rounded up, by style."""


def trace_rows(
    problem_id: str, gold: CountdownGold, kind: Kind, params: AprDataParams, *, seed: int
) -> list[dict[str, Any]]:
    """The sequences of the trace of a problem, in order of time, each with the problem and its condition."""
    draw = child_random(seed, "trace", kind, problem_id)
    return rows_of_trace(problem_id, _trace(gold, kind, params, draw), kind, params)


def rows_of_trace(
    problem_id: str, trace: Trace, kind: Kind, params: AprDataParams
) -> list[dict[str, Any]]:
    """The sequences of a trace as rows, each with the problem and its condition."""
    return [
        {
            "problem_id": problem_id,
            **asdict(sequence),
            "condition": _condition(sequence, trace, kind, params),
        }
        for sequence in trace.sequences
    ]


def _condition(sequence: TraceSequence, trace: Trace, kind: Kind, params: AprDataParams) -> str:
    """A parallel parent's number of children a spawn, or a serial sequence's tokens.

    Empty for a child, and for a parent without a spawn.
    """
    if sequence.role == "child":
        return ""
    if kind == "parallel":
        if not trace.spawned:
            return ""
        # The mean over its spawns, rounded half up.
        spawns = len(trace.spawned)
        return lines.condition(
            lines.SUB_CALL_BUDGET, (2 * sum(trace.spawned) + spawns) // (2 * spawns)
        )
    text = sequence.prefix + sequence.output
    tokens = count_tokens(text, num_numbers=params.countdown.num_numbers) + 1
    size = BUDGET_BINS[params.style]
    return lines.condition(lines.TOKEN_BUDGET, -(-tokens // size) * size)


def _trace(gold: CountdownGold, kind: Kind, params: AprDataParams, draw: random.Random) -> Trace:
    search = params.parallel if kind == "parallel" else params.serial
    numbers, target = gold.numbers, gold.target
    beam = draw.randint(search.beam_low, search.beam_high)
    if params.style == "compact":
        found = CompactSearch(
            numbers=numbers,
            target=target,
            beam=beam,
            sub_beam=search.sub_beam,
            max_value=params.max_value,
        )
        return compact_parallel_trace(found) if kind == "parallel" else compact_serial_trace(found)
    branch = search.branch
    if kind == "serial":
        return published_serial_trace(numbers, target, beam=beam, branch=branch, draw=draw)
    sub_beam = draw.randint(beam, max(beam, search.sub_beam))
    return published_parallel_trace(
        numbers, target, beam=beam, sub_beam=sub_beam, branch=branch, draw=draw
    )
