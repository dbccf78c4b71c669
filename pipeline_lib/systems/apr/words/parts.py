"""Questions of several independent parts, each of a few easy calculations, and their traces.

    Ada, Ben and Carla collect coins.
    (1) Ada has 4 boxes of 6, finds 13 more and loses 9.
    (2) Ben starts with 31, wins 7, sells 5 and buys 8 more.
    (3) ...
    How many coins do they have together?

A trace is parallel (the parent names the parts, a child calculates each, the parent combines the results), serial (the
sentences and calculations of all parts in one text) or terse (the calculations alone, chained as in ``4*6=24+13=37``).
The numbers of a part of a test question, in any order, are in no part of a training question.
"""

import itertools
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.apr import PartsParams
from pipeline_lib.records import Problem
from pipeline_lib.seeding import child_random
from pipeline_lib.systems.apr.threads import Role
from pipeline_lib.systems.apr.words.grammars import PointerGrammar, join_block
from pipeline_lib.systems.apr.words.texts import ANSWER

NAME = "parts"
KINDS = ("parallel", "serial", "terse")
NEW_WORDINGS = "wordings"
"""The split whose questions have wordings that no other split has."""
_HELD_OUT = ("test", NEW_WORDINGS)
_TEST_SHARE = 0.2
"""Of all number sets, reserved for the test splits."""
_SMALLEST, _LARGEST = 10, 49
"""Values of parts; all have two digits, so that larger ones are found digit by digit."""

_NAMES = [
    *("Ada", "Ben", "Carla", "Dora", "Emil", "Felix", "Greta", "Hana", "Ivo", "Jonas"),
    *("Kira", "Luca", "Mina", "Noah", "Olga", "Pavel", "Rosa", "Sami", "Tara", "Vera"),
    *("Wim", "Zoe", "Adrian", "Agnes", "Beatrice", "Bernard", "Cecilia", "Clemens"),
    *("Daniela", "Dietrich", "Eleanor", "Ernesto", "Fatima", "Filippo", "Gabriel"),
    *("Georgia", "Harriet", "Ignacio", "Ingrid", "Jasper", "Johanna", "Katarina"),
    *("Leopold", "Lucinda", "Marcel", "Matilda", "Natalia", "Nikolai", "Octavia", "Oliver"),
    *("Patricia", "Quentin", "Rafael", "Rebecca", "Sabrina", "Sebastian", "Theodor"),
    *("Tobias", "Ursula", "Valentin", "Veronika", "Wilhelm", "Xaver", "Yolanda"),
]
_THINGS = (
    *("apples", "books", "buttons", "candles", "cards", "coins", "cups", "eggs"),
    *("flowers", "lemons", "marbles", "pears", "pencils", "shells", "stamps", "toys"),
)
_STARTS = {
    "*": ("has {a} boxes of {b}", "owns {a} bags with {b} in each", "fills {a} jars with {b} each"),
    "+": ("has {a} red and {b} blue ones", "brings {a} old and {b} new ones"),
    "": ("starts with {a}", "has {a}"),
}
_EVENTS = {
    "+": ("finds {c} more", "buys {c} more", "gets {c} from a friend", "wins {c}", "picks up {c}"),
    "-": ("gives {c} away", "loses {c}", "sells {c}", "breaks {c}", "leaves {c} behind"),
}
_NEW_STARTS = {
    "*": ("packs {a} crates, each holding {b}", "lays out {a} rows of {b}"),
    "+": ("keeps {a} at home and {b} at school",),
    "": ("begins the day with {a}",),
}
_NEW_EVENTS = {
    "+": ("receives another {c}", "is handed {c} extra"),
    "-": ("drops {c} on the way", "hands {c} to a sister"),
}
_ASKED = {
    "sum": "How many {thing} do they have together?",
    "difference": "How many {thing} more does the one with the most have than the one with the fewest?",
    "largest": "How many {thing} does the one with the most have?",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a question."""

    sentence: str
    expression: str
    steps: Sequence[str]
    """As in ``4*6=24``."""
    value: int


def questions(params: PartsParams, *, split: str, seed: int, count: int) -> list[Problem]:
    """Distinct questions of a split; their columns are the values, steps and expressions of the parts.

    Question number n depends on the seed, the split and the ranges of ``params`` alone.
    """
    found: dict[str, Problem] = {}
    for index in itertools.count():
        if len(found) == count:
            break
        drawn = _question(params, child_random(seed, NAME, split, index), split, seed)
        found.setdefault(drawn.question, drawn)
    return [*found.values()]


def _question(params: PartsParams, draw: random.Random, split: str, seed: int) -> Problem:
    def allowed(numbers: Sequence[int]) -> bool:
        share = child_random(seed, "number set", *sorted(numbers)).random()
        return (share < _TEST_SHARE) == (split in _HELD_OUT)

    names = draw.sample(_NAMES, draw.randint(params.parts_low, params.parts_high))
    thing, asked = draw.choice(_THINGS), draw.choice([*_ASKED])
    parts = [
        _part(
            name,
            draw,
            steps=draw.randint(params.steps_low, params.steps_high),
            new=split == NEW_WORDINGS,
            allowed=allowed,
        )
        for name in names
    ]
    values = [part.value for part in parts]
    lines = [
        f"{', '.join(names[:-1])} and {names[-1]} collect {thing}.",
        *(f"({number}) {part.sentence}" for number, part in enumerate(parts, 1)),
        _ASKED[asked].format(thing=thing),
    ]
    question = "\n".join(lines)
    return Problem(
        id=f"{NAME}-{split}-{child_random(seed, question).randrange(1 << 48):012x}",
        question=question,
        gold=MathGold(answer=str(combined(asked, values))),
        source=NAME,
        columns={
            "asked": asked,
            "values": values,
            "steps": [part.steps for part in parts],
            "expressions": [part.expression for part in parts],
        },
    )


def _part(
    name: str,
    draw: random.Random,
    *,
    steps: int,
    new: bool,
    allowed: Callable[[Sequence[int]], bool],
) -> Part:
    starts, events = (_NEW_STARTS, _NEW_EVENTS) if new else (_STARTS, _EVENTS)
    while True:
        sign = draw.choice(["*", "*", "+", ""])
        a, b = draw.randint(2, 9), draw.randint(2, 9)
        if sign == "+":
            a, b = draw.randint(4, 20), draw.randint(4, 20)
        elif not sign:
            a = draw.randint(10, 60)
        start = {"*": a * b, "+": a + b, "": a}[sign]
        numbers = [a, b] if sign else [a]
        expression = f"{a}{sign}{b}" if sign else str(a)
        written = [f"{expression}={start}"] if sign else []
        told = [draw.choice(starts[sign]).format(a=a, b=b)]
        value = start
        while len(written) < steps and 1 <= value <= _LARGEST:
            event, c = draw.choice("+-"), draw.randint(2, 9)
            result = value + c if event == "+" else value - c
            written.append(f"{value}{event}{c}={result}")
            told.append(draw.choice(events[event]).format(c=c))
            expression += f"{event}{c}"
            numbers.append(c)
            value = result
        if _SMALLEST <= value <= _LARGEST and allowed(numbers):
            sentence = (
                f"{name} {', '.join(told[:-1])} and {told[-1]}."
                if told[1:]
                else f"{name} {told[0]}."
            )
            return Part(sentence=sentence, expression=expression, steps=written, value=value)


def combined(asked: str, values: Sequence[int]) -> int:
    """The answer to a question from the values of its parts."""
    return {
        "sum": sum(values),
        "difference": max(values) - min(values),
        "largest": max(values),
    }[asked]


def _last_steps(asked: str, values: Sequence[int]) -> list[str]:
    """As ``sum of 34, 28``, ``28: 34+20=54+8=62``: each line has all that it needs, or ends the line before it.

    A model of this size neither picks nor adds reliably numbers that it has not written beside each other, and finds a
    largest or smallest number by one comparison at a time.
    """
    listed = f"of {', '.join(map(str, values))}"
    if asked == "sum":
        sums = itertools.accumulate(values)
        return [f"sum {listed}", *itertools.starmap(_added, zip(sums, values[1:], strict=False))]
    steps = [f"largest {listed}: {_so_far(values, max)}"]
    if asked == "difference":
        steps += [f"smallest {listed}: {_so_far(values, min)}", _added(max(values), -min(values))]
    return steps


def _so_far(values: Sequence[int], better: Callable[[int, int], int]) -> str:
    """As ``34, 48, 48`` for the largest of 34, 48 and 21."""
    return ", ".join(map(str, itertools.accumulate(values, better)))


def _added(total: int, value: int) -> str:
    """Tens and ones one after another, a value below 0 taken away: ``28: 34+20=54+8=62``."""
    sign, size = ("-" if value < 0 else "+"), abs(value)
    written = f"{size}: {total}"
    for one in filter(None, (size // 10 * 10, size % 10)):
        total += one if value > 0 else -one
        written += f"{sign}{one}={total}"
    return written


def _chained(steps: Sequence[str]) -> str:
    """Steps as one: ``4*6=24``, ``24+13=37`` as ``4*6=24+13=37``."""
    return "".join([*steps[:1], *(re.sub(r"^\d+", "", step) for step in steps[1:])])


_FACTS_MESSAGE = "Write calculations, each with its result."


_STEPS_A_FACT = 4
_SUM_OF = 5
"""Single steps go up to the sum of so many values."""


def _facts(params: PartsParams, draw: random.Random) -> str:
    """Last steps of answers, of other values, and single steps. No value is in the message: each line has its own."""
    counts = range(params.parts_low, params.parts_high + 1)
    lines: list[str] = []
    for _ in range(params.facts):
        values = [draw.randint(_SMALLEST, _LARGEST) for _ in range(draw.choice(counts))]
        lines += _last_steps(draw.choice([*_ASKED]), values)
        lines += (_step(draw) for _ in range(_STEPS_A_FACT))
    return "\n".join(lines)


def _step(draw: random.Random) -> str:
    while True:
        sign, a, b = (
            draw.choice("+-"),
            draw.randint(1, draw.choice([1, _SUM_OF]) * _LARGEST),
            draw.randint(2, 9),
        )
        result = a + b if sign == "+" else a - b
        if result >= 1:
            return f"{a}{sign}{b}={result}"


def trace_rows(problem: Problem, kind: str, params: PartsParams) -> Iterator[dict[str, Any]]:
    """The sequences of the trace of a question, and its facts, as rows of a table of traces."""
    yield from _trace(problem, kind, params)
    if params.facts:
        text = _facts(params, child_random(0, "facts", problem.id))
        fact = {"role": "fact", "round": 0, "child": None, "condition": "", "solved": True}
        yield {"problem_id": problem.id, **fact, "prefix": _FACTS_MESSAGE + ANSWER, "output": text}


def _trace(problem: Problem, kind: str, params: PartsParams) -> Iterator[dict[str, Any]]:
    facts = problem.columns
    asked, values, steps = facts["asked"], facts["values"], facts["steps"]
    sentences = problem.question.split("\n")[1:-1]
    prompt = problem.question + ANSWER
    last = [*_last_steps(asked, values), f"\\boxed{{{combined(asked, values)}}}"]
    row = {"problem_id": problem.id, "condition": "", "solved": True}
    parent = {**row, "role": Role.PARENT.value, "child": None}
    if kind != "parallel":
        if kind == "terse":
            text = "\n".join([*map(_chained, steps), *last])
        else:
            told = [[one, *some] for one, some in zip(sentences, steps, strict=True)]
            text = "\n".join([*itertools.chain.from_iterable(told), *last])
        yield {**parent, "round": 0, "prefix": prompt, "output": text}
        return
    named = [str(number) for number in range(1, len(steps) + 1)]
    if params.child == "expression":
        named = [f"{one}: {text}" for one, text in zip(named, facts["expressions"], strict=True)]
    block = PointerGrammar().block(named)
    yield {**parent, "round": 0, "prefix": prompt, "output": block}
    for place, (sentence, some) in enumerate(zip(sentences, steps, strict=True)):
        message = {
            "sentence": sentence.partition(" ")[2],
            "expression": facts["expressions"][place],
            "question": f"{problem.question}\nPart ({place + 1})",
        }[params.child]
        text = _chained(some) if params.terse_children else "\n".join(some)
        child = {"role": Role.CHILD.value, "round": 0, "child": place}
        yield {**row, **child, "prefix": message + ANSWER, "output": text}
    joined = prompt + block + join_block([*map(str, values)])
    yield {**parent, "round": 1, "prefix": joined, "output": "\n".join(last)}
