r"""The step of a chain after which its answer is given away, so that a peer could copy it.

A text gives the answer away if it has an answer marker (a box, ``####``, an answer tag), if its lenient
verdict is right, or if it states the gold as a number that the question lacks. The first such step is
found from the beginnings of the chain: text that follows an answer cannot hide it.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from pipeline_lib.kinds.kind import Gold
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.records import Problem
from pipeline_lib.verification.answer_text import plain
from pipeline_lib.verification.dispatch import Item, Verifier
from pipeline_lib.verification.math.exact.normal_form import exact_value, normalize

_MARKER = re.compile(r"\\(?:boxed|fbox)|####|</?answer>", re.IGNORECASE)
_NUMBER = re.compile(
    r"\\[dt]?frac\s?\{\d{1,40}\}\s?\{\d{1,40}\}|\d[\d,]{0,60}(?:\.\d{1,60})?(?:/\d{1,40})?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """A chain of one problem, in steps that give the whole text when joined."""

    problem: Problem
    steps: Sequence[str]


def first_leaks(chains: Sequence[Chain], verifier: Verifier) -> list[int | None]:
    """Index of the first step of each chain that gives its answer away; None if none does.

    A beginning that the verifier could not judge counts as one that does.
    """
    stated = [_first_statement(chain) for chain in chains]
    # Beginnings in front of the stated answer, each judged once.
    open_texts = {
        (chain.problem.id, text): Item(gold=chain.problem.gold, text=text)
        for chain, end in zip(chains, stated, strict=True)
        for text in _beginnings(chain.steps[:end])
    }
    verdicts = dict(zip(open_texts, verifier.judge(list(open_texts.values())), strict=True))
    found: list[int | None] = []
    for chain, end in zip(chains, stated, strict=True):
        right = (
            number
            for number, text in enumerate(_beginnings(chain.steps[:end]))
            if verdicts[chain.problem.id, text].lenient is not False
        )
        found.append(next(right, end))
    return found


def _beginnings(steps: Sequence[str]) -> Iterator[str]:
    text = ""
    for step in steps:
        text += step
        yield text


def _first_statement(chain: Chain) -> int | None:
    """Index of the first step with an answer marker or with the gold."""
    states_gold = _GOLD_STATEMENTS.get(type(chain.problem.gold))
    for number, step in enumerate(chain.steps):
        if _MARKER.search(step) or (states_gold and states_gold(chain.problem, step)):
            return number
    return None


def _states_number(problem: Problem, text: str) -> bool:
    """True if the gold is a number that is in ``text``, with any sign, and not in the question."""
    assert isinstance(problem.gold, MathGold)
    gold = exact_value(normalize(problem.gold.answer))
    if gold is None:
        return False
    return abs(gold) in _numbers(text) and abs(gold) not in _numbers(problem.question)


def _numbers(text: str) -> set[Fraction]:
    """The numbers of a text; of a quotient also its parts."""
    spellings = [found[0].rstrip(",") for found in _NUMBER.finditer(plain(text))]
    parts = [part for spelling in spellings for part in re.findall(r"[\d,.]+", spelling)]
    values = (exact_value(normalize(spelling)) for spelling in {*spellings, *parts})
    return {value for value in values if value is not None}


_GOLD_STATEMENTS: Mapping[type[Gold], Callable[[Problem, str], bool]] = {MathGold: _states_number}
"""Kinds whose gold can be stated outside any answer format."""
