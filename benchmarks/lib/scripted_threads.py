"""Threads by a script: a small grammar, parents that spawn up to 15 children, delays and failures.

A text is words between spaces: ``parent 3 [ 3.0 3.1 ]`` spawns two children, whose results
join it as ``parent 3 ( 3.0! - )``.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.lib.scripted import ScriptedModel
from benchmarks.lib.scripted_draws import ScriptedDraws
from pipeline_lib.engines.chat_model import Completion, Decoding
from pipeline_lib.seeding import child_random
from pipeline_lib.systems.apr.runtime import Runtime
from pipeline_lib.systems.apr.threads import Child, Root, Spawn

MOST_CHILDREN = 15
FAILURE_RATE = 0.03
_SPAWN = re.compile(r"(?P<before>.*) \[ (?P<names>[^\[\]]*) \]", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class BracketGrammar:
    """Implements ThreadGrammar. A child called ``?`` is unknown; a word with ``!`` is a result."""

    forbidden: Mapping[str, str] = field(default_factory=lambda: {"(": "["})
    terminators: Collection[str] = ()

    def find_spawn(self, text: str) -> Spawn | None:
        """Square brackets at the end of a text."""
        found = _SPAWN.fullmatch(text)
        if found is None:
            return None
        names = found["names"].split()
        children = [Child(name=n, prompt=None if n == "?" else f"child {n}") for n in names]
        return Spawn(before=found["before"], children=children)

    def read_result(self, output: str) -> str | None:
        """The last word, if it is a result."""
        last = output.split()[-1:]
        return last[0] if last and last[0].endswith("!") else None

    def join(self, spawn: Spawn, results: Sequence[str | None]) -> str:
        """Round brackets in the place of square ones."""
        return f"{spawn.before} ( {' '.join(one or '-' for one in results)} )"


def answer(prompt: str, seed: int) -> str | None:
    """A parent spawns, then ends; one in three children has a result; some draws fail."""
    random = child_random(seed, "answer")
    if random.random() < FAILURE_RATE:
        return None
    kind, name, *more = prompt.split()
    if kind == "child":
        return f" {name}!" if random.random() < 1 / 3 else " none"
    if more:
        return " done"
    children = random.randint(0, MOST_CHILDREN)
    return f" [ {' '.join(f'{name}.{i}' for i in range(children))} ]" if children else " none"


def delay_s(_prompt: str, seed: int) -> float:
    """Seconds of a draw: 1 on average, with a tail."""
    return child_random(seed, "delay").expovariate(1.0)


@dataclass(slots=True, kw_only=True)
class RecordedDraws:
    """Implements SingleDraws on others, and records each draw."""

    draws: ScriptedDraws
    in_flight: int = 0
    most_in_flight: int = 0
    cancelled: int = 0
    drawn: Counter[str] = field(default_factory=Counter)
    """Draws that were begun, by prompt."""
    delays_s: dict[str, float] = field(default_factory=dict)
    """By prompt."""

    @property
    def names_stops(self) -> bool:
        """As the draws."""
        return self.draws.names_stops

    async def draw(self, prompt: str, seed: int, decoding: Decoding) -> Completion:
        """One completion."""
        self.drawn[prompt] += 1
        self.delays_s[prompt] = self.draws.delay_s(prompt, seed)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self.draws.draw(prompt, seed, decoding)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.in_flight -= 1


def scripted_draws(
    script: Callable[[str, int], str | None] = answer, *, names_stops: bool = True
) -> RecordedDraws:
    """Recorded draws of ``script``, with the delays of `delay_s`."""
    model = ScriptedModel(answer=script)
    return RecordedDraws(draws=ScriptedDraws(model=model, delay_s=delay_s, names_stops=names_stops))


def scripted_runtime(draws: RecordedDraws, *, bound: int, seed: int = 1) -> Runtime:
    """A runtime of the grammar above; make it in the event loop that runs it."""
    return Runtime(
        grammar=BracketGrammar(),
        draws=draws,
        decoding=Decoding(max_new_tokens=1000),
        slots=asyncio.Semaphore(bound),
        seed=seed,
    )


def scripted_roots(count: int) -> list[Root]:
    """``count`` parents."""
    return [Root(problem_id=str(n), sample=0, prompt=f"parent {n}") for n in range(count)]


def longest_chain_s(delays_s: Mapping[str, float]) -> float:
    """Seconds of the longest chain: a parent's draws, and between them its slowest child."""
    chains: dict[str, float] = {}
    slowest: dict[str, float] = {}
    for prompt, seconds in delays_s.items():
        kind, name, *_ = prompt.split()
        root = name.partition(".")[0]
        if kind == "parent":
            chains[root] = chains.get(root, 0.0) + seconds
        else:
            slowest[root] = max(slowest.get(root, 0.0), seconds)
    return max(chains[root] + slowest.get(root, 0.0) for root in chains)
