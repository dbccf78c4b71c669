"""Countdown: combine given numbers, each exactly once, into a target.

The solver writes the worked solutions in the requested format. Verification shares no code with it.
"""

import functools
import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, Field, StrictInt

from pipeline_lib.kinds.kind import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class CountdownGold:
    """Numbers to be combined, each exactly once, into the target."""

    numbers: tuple[int, ...]
    target: int


class _Line(BaseModel):
    numbers: Annotated[tuple[StrictInt, ...], Field(min_length=1)]
    target: StrictInt


def _read_line(row: Mapping[str, Any]) -> CountdownGold:
    line = _Line.model_validate(row)
    return CountdownGold(numbers=line.numbers, target=line.target)


def solutions(numbers: tuple[int, ...], target: int) -> list[str]:
    """All distinct solutions, sorted: one step a line, as in ``5+3=8`` then ``8*3=24``.

    A step replaces two values by their sum, product, difference or exact quotient; no value is
    negative or a fraction. The larger operand comes first, so commuted forms of a step are equal.
    """
    return sorted({"\n".join(steps) for steps in _solve(tuple(sorted(numbers)), target)})


def _solve(values: tuple[int, ...], target: int) -> Iterator[tuple[str, ...]]:
    if len(values) == 1:
        if values[0] == target:
            yield ()
        return
    for step, result, rest in _steps(values):
        after = tuple(sorted((*rest, result)))
        if target in reachable(after):
            yield from ((step, *further) for further in _solve(after, target))


@functools.lru_cache(maxsize=1 << 16)
def reachable(values: tuple[int, ...]) -> frozenset[int]:
    """Every value that uses all of the sorted ``values`` exactly once."""
    if len(values) == 1:
        return frozenset(values)
    after = {tuple(sorted((*rest, result))) for _, result, rest in _steps(values)}
    return frozenset().union(*map(reachable, after))


def _steps(values: tuple[int, ...]) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    """Each possible step on the sorted ``values``, its result, and the values that it leaves."""
    for low, high in itertools.combinations(range(len(values)), 2):
        small, large = values[low], values[high]
        rest = values[:low] + values[low + 1 : high] + values[high + 1 :]
        for sign, result in results(large, small):
            yield f"{large}{sign}{small}={result}", result, rest


def results(left: int, right: int) -> Iterator[tuple[str, int]]:
    """The sign and the result of each operation on two whole numbers that gives a whole number."""
    yield "+", left + right
    yield "*", left * right
    yield "-", left - right
    if right and left % right == 0:
        yield "/", left // right


_STEP = re.compile(r"(\d{1,9})([-+*/])(\d{1,9})=\d{1,9}")


def _compute_anew(response: str) -> str:
    """The steps of a response with the results that they have; ``?`` for one that is no whole number."""
    return _STEP.sub(lambda step: f"{step[1]}{step[2]}{step[3]}={_result(step)}", response)


def _result(step: re.Match[str]) -> int | str:
    return dict(results(int(step[1]), int(step[3]))).get(step[2], "?")


COUNTDOWN = Kind(
    name="countdown",
    gold=CountdownGold,
    instruction=(
        "Use each number exactly once. Write one arithmetic step a line, as in 3+5=8, "
        "nothing else; the last step gives the target."
    ),
    compact_prompt=lambda gold: f"{','.join(map(str, gold.numbers))}={gold.target}\n",
    # One solution alone would make the policy certain of it, with little left to explore.
    solution_texts=lambda gold, _solution: solutions(gold.numbers, gold.target),
    judge="pipeline_lib.verify.countdown:open_judge",
    answer_form="pipeline_lib.verify.countdown:answer_form",
    check_text=_compute_anew,
    show_gold=lambda gold: f"{gold.target} from {', '.join(map(str, gold.numbers))}",
    read_line=_read_line,
    write_line=lambda gold: {"numbers": list(gold.numbers), "target": gold.target},
)
