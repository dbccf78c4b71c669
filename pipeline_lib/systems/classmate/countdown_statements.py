"""The step with which a chain solves its Countdown problem: steps anywhere in the text, or an expression.

The steps may come in any order, with either side first.
"""

import operator
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate

from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.records import Problem
from pipeline_lib.verify.answer_text import plain
from pipeline_lib.verify.countdown import (
    STEP,
    find_expressions,
    find_steps,
    has_operator,
    judge,
    strip_latex,
)

_RESULT_SIGN = re.compile(r"==+|[-=]>|[→⇒⟹]|\b(?:is|equals|gives|makes|yields|becomes)\b")
_BOLD = re.compile(r"\*\*([^*\n]{1,80})\*\*")
_FULL_STOP = re.compile(r"(?<=\d)\.(?=\s|$)")
_NO_SIGN = re.compile(r"(?<=\d) ?(?=\()|(?<=\)) ?(?=\()")
_TIMES = re.compile(r"(?<=[\d)]) ?[xX] ?(?=[\d(])")
_RESULT_FIRST = re.compile(
    r"(?<![\d.])(\d{1,12}) ?= ?(\d{1,12} ?[-+*/] ?\d{1,12})(?![\d.]*\d| ?[-+*/])"
)
_MAX_STATES = 10_000
_OPERATIONS: Mapping[str, Callable[[int, int], int | Fraction]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": Fraction,
}


def first_solution(problem: Problem, steps: Sequence[str]) -> int | None:
    """Index of the first of the ``steps`` with which the chain solves the problem; None if none does."""
    gold = problem.gold
    assert isinstance(gold, CountdownGold)
    texts = [*accumulate(steps)]
    # What solves the problem stays in the text.
    place = bisect_left(texts, 1, key=lambda text: int(_solves(gold, text)))
    return place if place < len(texts) else None


def _solves(gold: CountdownGold, text: str) -> bool:
    views = [*_views(text)]
    steps = {step for view in views for step in find_steps(view)}
    expressions = {
        found
        for view in views
        # One line without long gaps, at which the judge would cut an expression, and each line.
        for line in (view, *view.split("\n"))
        for found in find_expressions(" ".join(line.split()), most_chars=None)
    }
    return _leads_to_target(gold, steps) or any(
        judge(gold, f"<answer>{found}</answer>").lenient
        for found in expressions
        if has_operator(found)
    )


def _views(text: str) -> Iterator[str]:
    """The text in signs of arithmetic; then with the steps whose result is first, and with products without a sign."""
    bare = _FULL_STOP.sub(" ", _BOLD.sub(r"\1", plain(text)))
    signs = _RESULT_SIGN.sub("=", _TIMES.sub("*", strip_latex(bare)))
    # The steps of a list are separate.
    listed = re.sub("[,;]", " ; ", signs)
    yield listed
    yield " ; ".join(f"{found[2]}={found[1]}" for found in _RESULT_FIRST.finditer(listed))
    yield _NO_SIGN.sub("*", listed)


def _leads_to_target(gold: CountdownGold, steps: set[str]) -> bool:
    """True if some of the steps, in some order, take the numbers to the target."""
    start = tuple(sorted(gold.numbers))
    seen, reached = {start}, [start]
    while reached and len(seen) < _MAX_STATES:
        values = reached.pop()
        for step in steps:
            after = _after(values, step)
            if after is not None and after not in seen:
                seen.add(after)
                reached.append(after)
    return (gold.target,) in seen


def _after(values: tuple[int, ...], step: str) -> tuple[int, ...] | None:
    """The numbers after a right step with two of them; else None."""
    found = STEP.fullmatch(step)
    assert found is not None
    left, right, written = (int(found[group]) for group in (1, 3, 4))
    rest = [*values]
    for operand in (left, right):
        if operand not in rest:
            return None
        rest.remove(operand)
    if (found[2] == "/" and not right) or _OPERATIONS[found[2]](left, right) != written:
        return None
    return tuple(sorted((*rest, written)))
