"""Countdown problems: drawn at random and kept if the exhaustive solver solves them."""

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Set

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.countdown import CountdownGold, reachable, solutions
from pipeline_lib.params.paths import CountdownParams
from pipeline_lib.records import Problem
from pipeline_lib.seeding import child_random, child_seed

Numbers = tuple[int, ...]
"""Sorted; numbers may repeat."""
ProblemKey = tuple[Numbers, int]
"""Identity of a problem: the sorted numbers, and the target."""
NAME = "countdown"
HELD_OUT = "test"
"""The split with reserved number sets."""

_DRY_DRAWS = 20_000
"""Consecutive draws without a new problem after which the ranges count as exhausted."""


def problem_key(problem: Problem) -> ProblemKey:
    """Identity of a Countdown problem for any order of its numbers."""
    assert isinstance(problem.gold, CountdownGold)
    return tuple(sorted(problem.gold.numbers)), problem.gold.target


def splits(
    params: CountdownParams, *, seed: int, counts: Mapping[str, int]
) -> dict[str, list[Problem]]:
    """Draw disjoint splits; BadInputError if the ranges in ``params`` hold too few distinct problems.

    A share of ``params.test_number_sets`` of all number sets is reserved: the split ``test`` draws from
    these alone, and no other split does. At 0 all splits draw from all number sets.

    A split depends on the splits before it in ``counts`` and on none after it, so with ``test`` first
    the size of the train split does not change the test split.
    """
    taken: set[ProblemKey] = set()
    drawn: dict[str, list[Problem]] = {}
    for name, count in counts.items():
        drawn[name] = generate(
            params,
            seed=child_seed(seed, "split", name),
            count=count,
            exclude=taken,
            allowed=_number_sets(params, seed, reserved=name == HELD_OUT),
        )
        taken.update(map(problem_key, drawn[name]))
    return drawn


def _number_sets(
    params: CountdownParams, seed: int, *, reserved: bool
) -> Callable[[Numbers], bool]:
    share = params.test_number_sets
    if share == 0:
        return lambda _numbers: True

    @functools.cache
    def allowed(numbers: Numbers) -> bool:
        return (child_random(seed, "number set", *numbers).random() < share) == reserved

    return allowed


def unseen_number_sets(held_out: Iterable[Problem], training: Iterable[Problem]) -> int:
    """Number of Countdown problems in ``held_out`` whose numbers occur in no problem of ``training``."""
    seen = {problem_key(problem)[0] for problem in training}
    return sum(problem_key(problem)[0] not in seen for problem in held_out)


def generate(
    params: CountdownParams,
    *,
    seed: int,
    count: int,
    exclude: Set[ProblemKey] = frozenset(),
    allowed: Callable[[Numbers], bool] = lambda _numbers: True,
) -> list[Problem]:
    """Draw ``count`` distinct solvable problems that are not in ``exclude``; numbers are sorted.

    Draw number n depends on ``seed`` and n alone; ``allowed`` is True for usable number sets.
    BadInputError: the ranges in ``params`` hold too few distinct problems.
    """
    seen = set(exclude)
    problems: list[Problem] = []
    dry = 0
    for index in itertools.count():
        if len(problems) == count:
            break
        if dry == _DRY_DRAWS:
            raise BadInputError(
                f"countdown: {count + len(exclude)} distinct problems are wanted over all splits, "
                f"{params.num_numbers} numbers in {params.low}..{params.high} and targets in "
                f"{params.target_low}..{params.target_high} hold about {len(seen)}; ask for fewer or "
                "widen the ranges"
            )
        numbers, target = key = _draw(params, seed, index)
        dry += 1
        if key not in seen and allowed(numbers) and target in reachable(numbers):
            dry = 0
            seen.add(key)
            problems.append(_problem(numbers, target, seed))
    return problems


def _draw(params: CountdownParams, seed: int, index: int) -> ProblemKey:
    random = child_random(seed, "countdown", index)
    numbers = [random.randint(params.low, params.high) for _ in range(params.num_numbers)]
    return tuple(sorted(numbers)), random.randint(params.target_low, params.target_high)


def problem_id(numbers: Numbers, target: int) -> str:
    """The id of a problem with sorted ``numbers``."""
    return f"{NAME}-{'.'.join(map(str, numbers))}-{target}"


def question_of(numbers: Numbers, target: int) -> str:
    """The question of a problem with sorted ``numbers``."""
    *first, last = map(str, numbers)
    return f"Combine the numbers {', '.join(first)} and {last} with +, -, * and / to get {target}."


def _problem(numbers: tuple[int, ...], target: int, seed: int) -> Problem:
    name = problem_id(numbers, target)
    return Problem(
        id=name,
        question=question_of(numbers, target),
        gold=CountdownGold(numbers=numbers, target=target),
        source=NAME,
        solution=child_random(seed, "solution", name).choice(solutions(numbers, target)),
    )
