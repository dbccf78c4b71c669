"""Generated word problems of one or two steps, as rows of GSM8K with worked solutions.

A template is a story with numbers a, b and c; each step of its solution combines two of them, or the result
of the step before (r). Names and things vary without changing what is asked.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from random import Random

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.countdown import results
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.paths import WordProblemParams
from pipeline_lib.records import Problem
from pipeline_lib.seeding import child_random, child_seed

HELD_OUT = "test"
"""The split with reserved templates."""
NAME = "word-problems"
_DRY_DRAWS = 20_000
"""Consecutive draws without a new problem after which the templates count as exhausted."""
_LARGEST = 400
_RANGES = {
    "+": ((3, 90), (3, 90)),
    "-": ((12, 120), (3, 60)),
    "*": ((2, 15), (2, 12)),
    "/": ((8, 144), (2, 12)),
}
"""Of the two operands; a division's first is rounded up to a multiple of its second."""

_OPERANDS = (("a", "b"), ("r", "c"))
"""Of the first and the second step; r is the result of the first."""

ProblemKey = tuple[str, tuple[int, ...]]
"""Identity of a problem: template and numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A story and the steps of its solution."""

    question: str
    """With {name}, {other}, {thing}, {a}, {b} and, for two steps, {c}."""
    steps: tuple[tuple[str, str, str, str], ...]
    """First operand, sign, second operand, and the sentence around {step}."""


_STORIES = """
{name} has {a} {thing}. {other} gives {name} {b} more. How many {thing} does {name} have now?
+ {name} has {step} {thing} now.
A shop sold {a} {thing} in the morning and {b} in the afternoon. How many {thing} did it sell that day?
+ The shop sold {step} {thing}.
{name} walked {a} minutes to the station and then rode a bus for {b} minutes. How long was the trip in minutes?
+ The trip took {step} minutes.
One shelf holds {a} {thing} and another holds {b}. How many {thing} are on both shelves together?
+ Both shelves hold {step} {thing}.
{name} saved {a} dollars in May and {b} dollars in June. How many dollars did {name} save in the two months?
+ {name} saved {step} dollars.
{name} read {a} pages on Monday and {b} pages on Tuesday. How many pages did {name} read altogether?
+ {name} read {step} pages.
{name} had {a} {thing} and gave {b} of them to {other}. How many {thing} does {name} have left?
- {name} has {step} {thing} left.
There were {a} people on a train. At the next stop {b} got off and no one got on. How many people are on the train now?
- There are {step} people on the train.
A book has {a} pages. {name} has read {b} of them. How many pages are left to read?
- There are {step} pages left.
A post is {a} centimetres long, and {b} centimetres of it are in the ground. How many centimetres are above the ground?
- {step} centimetres are above the ground.
A baker made {a} {thing} and sold {b} of them before noon. How many {thing} were not sold by noon?
- {step} {thing} were not sold.
{name} has {a} dollars and buys a ticket for {b} dollars. How many dollars are left?
- {name} has {step} dollars left.
{name} buys {a} boxes with {b} {thing} in each. How many {thing} does {name} buy?
* {name} buys {step} {thing}.
A ticket costs {b} dollars. How many dollars do {a} tickets cost?
* The tickets cost {step} dollars.
{name} runs {b} kilometres every day. How many kilometres does {name} run in {a} days?
* {name} runs {step} kilometres.
A hall has {a} rows of {b} seats. How many seats are in the hall?
* The hall has {step} seats.
Each of {a} children picks {b} {thing}. How many {thing} do they pick together?
* They pick {step} {thing}.
A machine makes {b} {thing} an hour. How many {thing} does it make in {a} hours?
* The machine makes {step} {thing}.
{name} shares {a} {thing} equally among {b} friends. How many {thing} does each friend get?
/ Each friend gets {step} {thing}.
{a} {thing} are packed into boxes of {b}. How many boxes are filled?
/ {step} boxes are filled.
{name} pays {a} dollars for {b} equal tickets. How many dollars does one ticket cost?
/ One ticket costs {step} dollars.
A rope of {a} metres is cut into {b} pieces of the same length. How many metres long is each piece?
/ Each piece is {step} metres long.
{name} plants {a} seeds in {b} equal rows. How many seeds are in a row?
/ There are {step} seeds in a row.
A team of {b} people earns {a} dollars and divides it equally. How many dollars does each of them get?
/ Each of them gets {step} dollars.
{name} has {a} {thing}, buys {b} more and then gives {c} to {other}. How many {thing} does {name} have in the end?
+ After buying {name} has {step} {thing}.
- In the end {name} has {step} {thing}.
There were {a} people on a bus. {b} got off and {c} got on. How many people are on the bus now?
- {step} people stayed on the bus.
+ Now there are {step} people on the bus.
{name} buys {a} boxes with {b} {thing} each and gives {c} {thing} away. How many {thing} are left?
* {name} buys {step} {thing}.
- {step} {thing} are left.
{name} buys {a} packs of {b} {thing} and already had {c}. How many {thing} does {name} have altogether?
* The packs hold {step} {thing}.
+ {name} has {step} {thing} altogether.
{name} earns {b} dollars an hour and works {a} hours. Then {name} spends {c} dollars. How many dollars are left?
* {name} earns {step} dollars.
- {step} dollars are left.
{a} {thing} are shared equally among {b} children. One of them, {name}, already had {c}. How many {thing} does {name} have now?
/ Each child gets {step} {thing}.
+ {name} has {step} {thing} now.
A class of {a} pupils forms groups of {b}. Each group gets {c} {thing}. How many {thing} are needed?
/ There are {step} groups.
* {step} {thing} are needed.
{name} has {a} red and {b} blue {thing} and puts them into {c} bags with the same number in each. How many {thing} are in a bag?
+ There are {step} {thing}.
/ There are {step} {thing} in a bag.
{name} had {a} dollars, spent {b} and divided the rest equally among {c} days. How many dollars can {name} spend on each day?
- {step} dollars were left.
/ {name} can spend {step} dollars on each day.
In a garden there are {a} rows with {b} plants. {name} adds {c} plants at the fence. How many plants are in the garden?
* The rows have {step} plants.
+ There are {step} plants in the garden.
{name} and {other} have {a} and {b} {thing}. Each is worth {c} dollars. How many dollars are all of them worth?
+ They have {step} {thing}.
* They are worth {step} dollars.
Of {a} {thing} in a store, {b} are broken. The others are sold for {c} dollars each. How many dollars does the store take?
- {step} {thing} are sold.
* The store takes {step} dollars.
{name} swims {a} lanes on each of {b} days, and {c} lanes on the day after. How many lanes does {name} swim altogether?
* On the first days {name} swims {step} lanes.
+ {name} swims {step} lanes altogether.
{name} packs {a} {thing} into boxes of {b} and sells {c} of the boxes. How many boxes are left?
/ {name} fills {step} boxes.
- {step} boxes are left.
A tank holds {a} litres. {name} pours in {b} litres more, and {c} litres leak out. How many litres are in the tank?
+ There are {step} litres before the leak.
- There are {step} litres in the tank.
{name} bakes {a} trays of {b} {thing} and divides them equally among {c} neighbours. How many {thing} does each neighbour get?
* {name} bakes {step} {thing}.
/ Each neighbour gets {step} {thing}.
"""
"""Questions, each above a line per step: its sign, and the sentence around {step}."""


def _read_stories() -> Iterator[Template]:
    for story in re.split(r"\n(?![-+*/] )", _STORIES.strip()):
        question, *lines = story.split("\n")
        steps = [
            (left, line[0], right, line[2:])
            for line, (left, right) in zip(lines, _OPERANDS, strict=False)
        ]
        yield Template(question=question, steps=tuple(steps))


_TEMPLATES = tuple(_read_stories())
_NAMES = (
    *("Ada", "Ben", "Carla", "Deniz", "Emil", "Farah", "Goran", "Hana", "Ivo", "Jamal", "Kira"),
    *("Luca", "Mina", "Noah", "Olga", "Pavel", "Rosa", "Sami", "Tara", "Umar", "Vera", "Wim"),
    *("Yuki", "Zoe"),
)
_THINGS = (
    *("apples", "books", "buttons", "candles", "cards", "coins", "cups", "eggs", "flowers"),
    *("lemons", "marbles", "muffins", "oranges", "pears", "pencils", "plates", "shells", "stamps"),
    *("stickers", "toys"),
)


def templates(steps: int) -> Mapping[str, Template]:
    """The templates of problems with ``steps`` steps, by name."""
    chosen = [template for template in _TEMPLATES if len(template.steps) == steps]
    return {f"{steps}.{number}": template for number, template in enumerate(chosen)}


def splits(
    params: WordProblemParams, *, seed: int, counts: Mapping[str, int]
) -> dict[str, list[Problem]]:
    """Draw disjoint splits: no two share a template with the same numbers. BadInputError if there are too few.

    A share of ``params.test_templates`` of the templates of each number of steps is reserved: the split
    ``test`` draws from these alone, and no other split does. At 0 all splits draw from all templates.

    A split depends on the splits before it in ``counts`` and on none after it.
    """
    taken: set[ProblemKey] = set()
    drawn: dict[str, list[Problem]] = {}
    for name, count in counts.items():
        allowed = _allowed(params, seed, reserved=name == HELD_OUT)
        found = list(_generate(allowed, child_seed(seed, "split", name), count, taken))
        taken.update(key for key, _ in found)
        drawn[name] = [problem for _, problem in found]
    return drawn


def unseen_templates(held_out: Iterable[Problem], training: Iterable[Problem]) -> int:
    """Number of problems in ``held_out`` whose template occurs in no problem of ``training``."""
    seen = {_template_name(problem) for problem in training}
    return sum(_template_name(problem) not in seen for problem in held_out)


def _template_name(problem: Problem) -> str:
    return problem.id.removeprefix(f"{NAME}-").partition("-")[0]


def _allowed(params: WordProblemParams, seed: int, *, reserved: bool) -> dict[str, Template]:
    allowed: dict[str, Template] = {}
    for steps in params.steps:
        own = templates(steps)
        order = sorted(own, key=lambda name: child_seed(seed, "template", name))
        count = round(params.test_templates * len(own))
        if params.test_templates:
            order = order[:count] if reserved else order[count:]
        if not order:
            raise BadInputError(
                f"prepare.word_problems.test_templates={params.test_templates:g}: leaves no template for "
                f"the {'test' if reserved else 'training'} problems of {steps} steps; choose a number "
                "between 0.1 and 0.9"
            )
        allowed |= {name: own[name] for name in order}
    return allowed


def _generate(
    allowed: Mapping[str, Template], seed: int, count: int, exclude: Set[ProblemKey]
) -> Iterator[tuple[ProblemKey, Problem]]:
    # Each template in its turn, so that splits of any size have the same mixture.
    names = sorted(allowed, key=lambda name: child_seed(seed, "turn", name))
    seen, dry, made = set(exclude), 0, 0
    for index in itertools.count():
        if made == count:
            return
        if dry == _DRY_DRAWS:
            raise BadInputError(
                f"prepare.word_problems: {count} distinct problems are wanted in a split, and its "
                f"{len(names)} templates gave {made}; ask for fewer, or allow more steps"
            )
        random = child_random(seed, "word problem", index)
        name = names[index % len(names)]
        # Most draws of a division have no whole result.
        while (numbers := _try_numbers(allowed[name], random)) is None:
            pass
        dry += 1
        if (name, numbers) in seen:
            continue
        dry = 0
        made += 1
        seen.add((name, numbers))
        yield (name, numbers), _problem(name, allowed[name], numbers, random)


def _try_numbers(template: Template, random: Random) -> tuple[int, ...] | None:
    """Numbers, if their results are whole, positive and up to a bound."""
    values: dict[str, int] = {}
    for left, sign, right, _ in template.steps:
        first, second = (random.randint(*limits) for limits in _RANGES[sign])
        values.setdefault(right, second)
        values.setdefault(left, first + -first % second if sign == "/" else first)
        result = dict(results(values[left], values[right])).get(sign)
        if result is None or not 1 <= result <= _LARGEST:
            return None
        values["r"] = result
    return tuple(values[name] for name in "abc" if name in values)


def _problem(name: str, template: Template, numbers: tuple[int, ...], random: Random) -> Problem:
    person, other = random.sample(_NAMES, 2)
    words = {"name": person, "other": other, "thing": random.choice(_THINGS)}
    values = dict(zip("abc", numbers, strict=False))
    lines = []
    for left, sign, right, sentence in template.steps:
        result = dict(results(values[left], values[right]))[sign]
        step = f"{values[left]}{sign}{values[right]}"
        lines.append(sentence.format(step=f"{step}=<<{step}={result}>>{result}", **words))
        values["r"] = result
    return Problem(
        id=f"{NAME}-{name}-{'.'.join(map(str, numbers))}",
        question=template.question.format(**words, **values),
        gold=MathGold(answer=str(values["r"])),
        source=NAME,
        solution="\n".join([*lines, f"#### {values['r']}"]),
    )
