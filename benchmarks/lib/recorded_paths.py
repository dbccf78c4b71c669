"""Recorded paths of any number, for stages that read paths: Countdown, half of them right."""

import pathlib
from collections.abc import Iterator

from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.records import FinishReason, Path, Problem, Provenance
from pipeline_lib.sampling.paths import KIND, path_counts
from pipeline_lib.store import shards

PROBLEMS_KIND = "problems"
_KEY = "recorded"
_WIDTH = 997
"""Problem n has the numbers n mod WIDTH + 2, n div WIDTH + 2 and 2 (sum times two)."""


def recorded_problem(number: int) -> Problem:
    """Problem ``number``: the sum of two numbers, doubled."""
    first, second = number % _WIDTH + 2, number // _WIDTH + 2
    gold = CountdownGold(numbers=tuple(sorted((first, second, 2))), target=2 * (first + second))
    numbers = ", ".join(map(str, gold.numbers))
    return Problem(
        id=f"recorded-{number:06d}",
        question=f"Combine {numbers} into {gold.target}, using each once.",
        gold=gold,
        source="recorded",
    )


def recorded_path(problem: Problem, number: int, index: int, *, model: str) -> Path:
    """Path ``index``: right if number and index are both even or both odd, else off by one at the end."""
    first, second = number % _WIDTH + 2, number // _WIDTH + 2
    larger, smaller = max(first, second), min(first, second)
    total = first + second
    # The steps may come in either order of the operands, so paths of a problem differ.
    begin = f"{larger}+{smaller}={total}" if index % 4 < 2 else f"{smaller}+{larger}={total}"
    answer = 2 * total + (number + index) % 2
    text = f"{begin}\n{total}*2={answer}"
    return Path(
        problem_id=problem.id,
        index=index,
        text=text,
        finish_reason=FinishReason.STOP,
        prompt_tokens=len(problem.question) // 4,
        completion_tokens=len(text),
        logprob=-1.0 - index,
        provenance=Provenance(
            model=model,
            template="recorded",
            seed=number * 100 + index,
            temperature=1.0,
            top_p=1.0,
            max_new_tokens=64,
            engine="embedded",
        ),
    )


def write_problems(folder: pathlib.Path, count: int) -> None:
    """Write and seal a table of ``count`` problems."""
    rows = [recorded_problem(number).row() for number in range(count)]
    shards.write_table(folder, rows, kind=PROBLEMS_KIND, key=_KEY)


def write_paths(
    folder: pathlib.Path, *, problems: int, paths_each: int, shard_size: int, model: str = "none"
) -> None:
    """Write and seal a table of ``paths_each`` paths for each of ``problems``, cut like a draw."""
    starts = range(0, problems, shard_size)
    for shard, start in enumerate(starts):
        paths = list(_paths(range(start, min(start + shard_size, problems)), paths_each, model))
        rows = [path.row() for path in paths]
        shards.write_shard(folder, shard, rows, kind=KIND, key=_KEY, counts=path_counts(paths))
    shards.seal_table(folder, len(starts), kind=KIND, key=_KEY)


def _paths(numbers: range, paths_each: int, model: str) -> Iterator[Path]:
    for number in numbers:
        problem = recorded_problem(number)
        for index in range(paths_each):
            yield recorded_path(problem, number, index, model=model)
