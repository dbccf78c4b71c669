"""The scheduler of threads: draws parents and children, joins results, and counts what it takes.

It is independent of the problem: a `ThreadGrammar` reads and writes the texts. Every draw has a seed of its own,
from its place in the tree, so results do not depend on the order in which draws end, with two exceptions:
`Runtime.first_success`, and a limit of all tokens together with children of children.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pipeline_lib.engines.chat_model import ChatModel, Completion, Draws
from pipeline_lib.engines.client.session import gather_all
from pipeline_lib.records import FinishReason
from pipeline_lib.sampling.compute_cost import NOTHING, Cost, request_cost
from pipeline_lib.seeding import child_seed
from pipeline_lib.systems.apr.runtime import KeptDraw, Runtime, keep, open_draws
from pipeline_lib.systems.apr.threads import DrawnSequence, End, Event, Role, Rollout, Root, Spawn


def draw_rollouts(
    engine: ChatModel,
    roots: Sequence[Root],
    runtime: Callable[[Draws], Runtime],
    *,
    lockstep: bool = True,
    encode: Callable[[str], list[int]] | None = None,
) -> list[Rollout]:
    """The rollouts of ``roots`` with the draws of ``engine``; see `run_rollouts` and `open_draws`."""

    async def run() -> list[Rollout]:
        async with open_draws(engine, lockstep=lockstep, encode=encode) as draws:
            return await run_rollouts(runtime(draws), roots)

    return asyncio.run(run())


async def run_rollouts(runtime: Runtime, roots: Sequence[Root]) -> list[Rollout]:
    """The rollouts of ``roots``, in their order.

    Cancelling the task cancels all draws. A failed draw is part of its rollout.

    Raises:
        ReasonloopError: the engine is gone.
    """
    return await gather_all([run_rollout(runtime, root) for root in roots])


async def run_rollout(runtime: Runtime, root: Root) -> Rollout:
    """The rollout of one parent.

    Raises:
        ReasonloopError: the engine is gone.
    """
    budget = _Budget(left=math.inf if runtime.limits.tokens is None else runtime.limits.tokens)
    thread = _Thread(runtime=runtime, root=root, budget=budget, prompt=root.prompt)
    await thread.run()
    assert thread.end is not None
    failed = thread.end is End.FAILED
    return Rollout(
        root=root,
        sequences=() if failed else tuple(thread.sequences),
        end=thread.end,
        error=thread.error,
        child_error=thread.child_error,
        cost=thread.cost,
        total_tokens=thread.total_tokens,
        longest_tokens=thread.longest_tokens,
        events=thread.events,
    )


@dataclass(slots=True)
class _Budget:
    """Tokens that the threads of one rollout may still draw; an open draw holds all that it may need."""

    left: float


@dataclass(slots=True, kw_only=True)
class _Thread:
    """A thread while it is drawn, with the sums of its children."""

    runtime: Runtime
    root: Root
    budget: _Budget
    prompt: str
    place: str = ""
    """In the tree, such as ``/0.3`` for child 3 of the parent's first draw."""
    depth: int = 0
    child: int | None = None
    round: int = 0
    text: str = field(init=False)
    """The context of the next draw."""
    shared: str | None = field(init=False, default=None)
    """The part of ``text`` that the sequence before holds, too."""
    without_room: End = field(init=False)
    """Its end if the window has no room for the next draw."""
    end: End | None = field(init=False, default=None)
    """None while it runs, and for ever if it was cancelled."""
    error: str | None = field(init=False, default=None)
    child_error: str | None = field(init=False, default=None)
    """The first of the threads below."""
    sequences: list[DrawnSequence] = field(init=False, default_factory=list)
    cost: Cost = field(init=False, default=NOTHING)
    total_tokens: int = field(init=False, default=0)
    longest_tokens: int = field(init=False, default=0)
    events: Counter[Event] = field(init=False, default_factory=Counter)

    def __post_init__(self) -> None:
        self.text = self.prompt
        self.without_room = End.CUT if self.depth else End.FAILED

    @property
    def result(self) -> str | None:
        """The result that a child passes to its parent."""
        if self.end is not End.FINISHED:
            return None
        return self.runtime.grammar.read_result(self.text.removeprefix(self.prompt))

    async def run(self) -> None:
        """Draw the thread to its end."""
        for number in range(self.runtime.limits.draws):
            kept = await self._draw(number)
            if kept is None:
                return
            spawn = self._find_spawn()
            if spawn is None and kept.forged is not None:
                self._force_spawn(kept.forged)
            else:
                self.events[Event.FORGED_JOINS] += kept.forged is not None
                await self._go_on(spawn, number)
            if self.end is not None:
                return
        self.end = End.DRAW_LIMIT

    async def _draw(self, number: int) -> KeptDraw | None:
        """The next sequence; None if the thread ends without one."""
        room = self.runtime.room(self.text)
        if room < 1:
            self.end = self.without_room
            self.events[Event.JOIN_OVERFLOWS] += self.end is End.JOIN_OVERFLOW
            if self.end is End.FAILED:
                tokens = self.runtime.count(self.text)
                self.error = (
                    f"a prompt of {tokens} tokens leaves no room in window={self.runtime.window}"
                )
            return None
        most = int(min(room, self.budget.left))
        if most < 1:
            self.end = End.CUT
            return None
        self.budget.left -= most
        place = f"{self.place}/{number}"
        names = ("thread", self.root.problem_id, self.root.sample, place)
        seed = child_seed(self.runtime.seed, *names)
        try:
            completion = await self.runtime.draw(self.text, seed, max_tokens=most)
        except asyncio.CancelledError:
            self.budget.left += most
            raise
        self.budget.left += most - completion.completion_tokens
        self.cost = self.cost.then(request_cost([completion]))
        if completion.error is not None:
            self.end, self.error = End.FAILED, completion.error
            self.events[Event.DROPPED_TOKENS] += completion.completion_tokens
            return None
        kept = keep(completion, self.runtime.grammar, self.runtime.tokens)
        self._record(kept, completion)
        self.text += kept.output
        if kept.is_whole and completion.finish_reason is FinishReason.LENGTH:
            self.end = End.CUT
        return kept

    def _record(self, kept: KeptDraw, completion: Completion) -> None:
        self.sequences.append(
            DrawnSequence(
                prefix=self.text,
                output=kept.output,
                role=Role.CHILD if self.depth else Role.PARENT,
                round=self.round,
                child=self.child,
                output_ids=kept.ids,
                logprobs=kept.logprobs,
            )
        )
        self.events[Event.WASTED_TOKENS] += completion.completion_tokens - kept.length
        self.events[Event.LOST_IDS] += kept.ids is None and completion.token_ids is not None
        length = completion.prompt_tokens + kept.length
        shared = 0 if self.shared is None else self.runtime.count(self.shared)
        self.total_tokens += length - shared
        self.longest_tokens = max(self.longest_tokens, length)

    def _force_spawn(self, forged: str) -> None:
        """Put the opener of a spawn block in the place of a join that the model began."""
        self.events[Event.FORGED_JOINS] += 1
        if self.depth >= self.runtime.limits.depth:
            self.end = End.FORGED
            return
        self.shared, self.without_room = self.text, End.CUT
        self.text += self.runtime.grammar.forbidden[forged]

    def _find_spawn(self) -> Spawn | None:
        """The spawn block that ends the text, if the thread may have children."""
        if self.end is not None or self.depth >= self.runtime.limits.depth:
            return None
        spawn = self.runtime.grammar.find_spawn(self.text)
        # A prompt may hold an open block of the parent's, which is not this thread's to end.
        return spawn if spawn is None or spawn.before.startswith(self.prompt) else None

    async def _go_on(self, spawn: Spawn | None, number: int) -> None:
        """Join the children of the spawn block, or end the thread."""
        if self.end is not None:
            return
        if spawn is None:
            self.end = End.FINISHED
            return
        results = await self._spawn(spawn, f"{self.place}/{number}")
        self.shared, self.without_room = spawn.before, End.JOIN_OVERFLOW
        self.text = self.runtime.grammar.join(spawn, results)
        self.round += 1

    async def _spawn(self, spawn: Spawn, place: str) -> list[str | None]:
        """The results of the children, in their order."""
        threads: dict[int, _Thread] = {}
        self.events[Event.CHILDREN] += len(spawn.children)
        for index, child in enumerate(spawn.children):
            if child.prompt is None:
                self.events[Event.UNKNOWN_CHILDREN] += 1
            elif len(threads) == self.runtime.limits.children:
                self.events[Event.EXCESS_CHILDREN] += 1
            else:
                threads[index] = _Thread(
                    runtime=self.runtime,
                    root=self.root,
                    budget=self.budget,
                    prompt=child.prompt,
                    place=f"{place}.{index}",
                    depth=self.depth + 1,
                    child=index,
                    round=self.round,
                )
        winner = await _run_beside([*threads.values()], first_success=self.runtime.first_success)
        beside = NOTHING
        for thread in threads.values():
            cost = thread.cost
            if winner is not None and thread.end is None:
                cost = max(cost, winner.cost, key=lambda known: known.completion_tokens)
            beside = beside.beside(cost)
            self._add_child(thread, cost)
        self.cost = self.cost.then(beside)
        return [
            threads[index].result if index in threads else None
            for index in range(len(spawn.children))
        ]

    def _add_child(self, thread: "_Thread", cost: Cost) -> None:
        """Take over the sequences and counts of a child; a failed or cancelled one has no sequences."""
        counted = thread.events[Event.WASTED_TOKENS] + thread.events[Event.DROPPED_TOKENS]
        self.events.update(thread.events)
        self.child_error = self.child_error or thread.child_error or thread.error
        if thread.end is None or thread.end is End.FAILED:
            failed = thread.end is End.FAILED
            self.events[Event.FAILED_CHILDREN if failed else Event.CANCELLED_CHILDREN] += 1
            self.events[Event.DROPPED_TOKENS] += cost.completion_tokens - counted
            return
        self.events[Event.CUT_CHILDREN] += thread.end in {End.CUT, End.DRAW_LIMIT}
        self.sequences += thread.sequences
        self.total_tokens += thread.total_tokens
        self.longest_tokens = max(self.longest_tokens, thread.longest_tokens)


async def _run_beside(threads: Sequence[_Thread], *, first_success: bool) -> _Thread | None:
    """Run threads to their ends at once; with ``first_success`` the first with a result cancels the others.

    Returns:
        The one that cancelled them.
    """
    tasks: list[asyncio.Task[None]] = []
    winner: _Thread | None = None

    async def run(thread: _Thread) -> None:
        nonlocal winner
        await thread.run()
        if first_success and winner is None and thread.result is not None:
            winner = thread
            for other in tasks:
                if other is not asyncio.current_task():
                    other.cancel()

    try:
        async with asyncio.TaskGroup() as group:
            tasks += [group.create_task(run(thread)) for thread in threads]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return winner
