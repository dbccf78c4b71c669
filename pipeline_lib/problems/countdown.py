"""Countdown problems: drawn at random, kept only when an exhaustive solver solves them.

The solver also writes the worked solutions, in the text form that the verifier reads. It is not the
verifier: what a model writes is judged by `verification`, which shares no code with this module.
"""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Set

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.paths import CountdownParams
from pipeline_lib.records import CountdownGold, Problem
from pipeline_lib.seeding import child_random, child_seed

Numbers = tuple[int, ...]
"""Sorted, with repetition."""
ProblemKey = tuple[Numbers, int]
"""What makes two problems the same: the sorted numbers, and the target."""
HELD_OUT = "test"
"""The split that has number sets of its own."""

_DRY_DRAWS = 20_000
"""So many draws in a row without a new problem mean that there are hardly any left."""


def problem_key(problem: Problem) -> ProblemKey:
    """Identity of a Countdown problem, whatever the order of its numbers."""
    assert isinstance(problem.gold, CountdownGold)
    return tuple(sorted(problem.gold.numbers)), problem.gold.target


def splits(
    params: CountdownParams, *, seed: int, counts: Mapping[str, int]
) -> dict[str, list[Problem]]:
    """Draw several splits of which no two share a problem.

    A share of ``params.test_number_sets`` of all number sets is reserved for the split ``test``,
    which draws from these alone; no other split does. At 0 all splits draw from all of them.

    A split depends on those before it in ``counts`` and never on those after it, so a larger train
    split leaves the test split as it was when the test split is named first.

    Raises:
        BadInputError: the ranges in ``params`` hold too few distinct problems.
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
    """How many Countdown problems of ``held_out`` have numbers that no problem of ``training`` has."""
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
    """Draw ``count`` distinct solvable problems, none of them in ``exclude``; numbers are sorted.

    Draw number n depends on ``seed`` and n alone.

    Args:
        params: ranges of numbers and targets.
        seed: of the draws.
        count: problems.
        exclude: problems that are taken already.
        allowed: whether a number set may be used.

    Raises:
        BadInputError: the ranges in ``params`` hold too few distinct problems.
    """
    seen = set(exclude)
    problems: list[Problem] = []
    dry = 0
    for index in itertools.count():
        if len(problems) == count:
            break
        if dry == _DRY_DRAWS:
            raise _too_few(params, wanted=count + len(exclude), found=len(seen))
        numbers, target = key = _draw(params, seed, index)
        dry += 1
        if key not in seen and allowed(numbers) and target in _reachable(numbers):
            dry = 0
            seen.add(key)
            problems.append(_problem(numbers, target, seed))
    return problems


def _too_few(params: CountdownParams, *, wanted: int, found: int) -> BadInputError:
    ranges = (
        f"{params.num_numbers} numbers in {params.low}..{params.high} and targets in "
        f"{params.target_low}..{params.target_high}"
    )
    return BadInputError(
        f"prepare.countdown: {wanted} distinct problems are wanted over all splits, {ranges} hold "
        f"about {found}; ask for fewer or widen the ranges"
    )


def _draw(params: CountdownParams, seed: int, index: int) -> ProblemKey:
    random = child_random(seed, "countdown", index)
    numbers = [random.randint(params.low, params.high) for _ in range(params.num_numbers)]
    return tuple(sorted(numbers)), random.randint(params.target_low, params.target_high)


def _problem(numbers: tuple[int, ...], target: int, seed: int) -> Problem:
    name = f"countdown-{'.'.join(map(str, numbers))}-{target}"
    *first, last = map(str, numbers)
    return Problem(
        id=name,
        question=f"Combine the numbers {', '.join(first)} and {last} with +, -, * and / "
        f"to get {target}.",
        gold=CountdownGold(numbers=numbers, target=target),
        source="countdown",
        solution=child_random(seed, "solution", name).choice(solutions(numbers, target)),
    )


def solutions(numbers: tuple[int, ...], target: int) -> list[str]:
    """All distinct solutions, sorted: one step a line, as in ``5+3=8`` then ``8*3=24``.

    A step takes two values and puts their sum, product, difference or exact quotient in their
    place; no value is negative or a fraction. The larger operand stands first, so that commuted
    forms of a step are one.
    """
    return sorted({"\n".join(steps) for steps in _solve(tuple(sorted(numbers)), target)})


def _solve(values: tuple[int, ...], target: int) -> Iterator[tuple[str, ...]]:
    if len(values) == 1:
        if values[0] == target:
            yield ()
        return
    for step, result, rest in _steps(values):
        after = tuple(sorted((*rest, result)))
        if target in _reachable(after):
            yield from ((step, *further) for further in _solve(after, target))


@functools.lru_cache(maxsize=1 << 16)
def _reachable(values: tuple[int, ...]) -> frozenset[int]:
    """Every value that uses all of the sorted ``values`` exactly once."""
    if len(values) == 1:
        return frozenset(values)
    after = {tuple(sorted((*rest, result))) for _, result, rest in _steps(values)}
    return frozenset().union(*map(_reachable, after))


def _steps(values: tuple[int, ...]) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    """Each possible step on the sorted ``values``, its result, and the values that it leaves."""
    for low, high in itertools.combinations(range(len(values)), 2):
        small, large = values[low], values[high]
        rest = values[:low] + values[low + 1 : high] + values[high + 1 :]
        for sign, result in _results(large, small):
            yield f"{large}{sign}{small}={result}", result, rest


def _results(large: int, small: int) -> Iterator[tuple[str, int]]:
    yield "+", large + small
    yield "*", large * small
    yield "-", large - small
    if small and large % small == 0:
        yield "/", large // small
