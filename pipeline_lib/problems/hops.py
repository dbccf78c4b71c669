"""Look-ups in tables, one after another: a table is a fixed permutation of the entities, to be learned by heart."""

import string
from collections.abc import Mapping
from random import Random

from pipeline_lib.kinds.hops import SECOND, HopsGold
from pipeline_lib.params.paths import PEER_SOLUTION, HopsParams
from pipeline_lib.records import Problem
from pipeline_lib.seeding import child_random

NAME = "hops"
_MOST_TRIES = 50
"""Draws for each wanted problem."""


def splits(params: HopsParams, *, seed: int, counts: Mapping[str, int]) -> dict[str, list[Problem]]:
    """Disjoint splits of problems whose chains have no entity twice, so that every step counts.

    A split is smaller than wanted where too few problems exist.
    """
    entities = range(1, params.entities + 1)
    tables = {
        name: child_random(seed, NAME, "table", name).sample(entities, params.entities)
        for name in string.ascii_lowercase[: params.tables]
    }
    seen: set[str] = set()
    drawn: dict[str, list[Problem]] = {}
    for split, count in counts.items():
        random, found = child_random(seed, NAME, split), drawn.setdefault(split, [])
        tries = _MOST_TRIES * count
        while len(found) < count and (tries := tries - 1):
            problem = _draw(params, tables, random)
            if problem is not None and problem.id not in seen:
                seen.add(problem.id)
                found.append(problem)
    return drawn


def _draw(params: HopsParams, tables: Mapping[str, list[int]], random: Random) -> Problem | None:
    """A problem; None if an entity comes back."""
    chain = [random.randint(1, params.entities)]
    names = random.choices([*tables], k=params.hops)
    for name in names:
        chain.append(tables[name][chain[-1] - 1])
    own, of_peer = (
        "\n".join(str(one + added) for one in chain[1:])
        for share in (params.second, params.peer_second)
        for added in [SECOND * (random.random() < share)]
    )
    if len({*chain}) < len(chain):
        return None
    question = f"{chain[0]} {' '.join(names)}"
    return Problem(
        id=f"{NAME}-{question.replace(' ', '.')}",
        question=question,
        gold=HopsGold(entity=chain[-1]),
        source=NAME,
        solution=own,
        columns={PEER_SOLUTION: of_peer},
        turns=(("user", f"{question}\n"),),
        is_whole_prompt=True,
    )
