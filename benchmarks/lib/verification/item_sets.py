r"""Item sets of the verification benchmark, deterministic in content and order.

Recorded outputs and published golds are read from a folder of reference data; without one, only the
generated sets are available (mixed LaTeX, hostile answers).
"""

import itertools
import json
import pathlib
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.lib.math_pairs.pair import boxed
from benchmarks.lib.verification.families import FAMILIES, Member
from pipeline_lib.seeding import child_random
from pipeline_lib.verify.math.exact.normal_form import exact_value, normalize
from pipeline_lib.verify.math.extraction import extract

GROUP_SIZE = 8
NUM_GOLDS = 6
"""Golds per family."""
_FIRST = 2
_INTEGER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class MathItem:
    """A gold, a completion, and the right verdict if it is known."""

    gold: str
    text: str
    right: bool | None = None


Items = list[MathItem]


def item_sets(data: pathlib.Path | None) -> dict[str, Callable[[], Items]]:
    """A function for each set, by name; ``data`` is a folder of reference data."""
    made: dict[str, Callable[[], Items]] = {
        "mixed: as the gold is written": lambda: _mixed(lambda member: (member.gold,), right=True),
        "mixed: equal, written otherwise": lambda: _mixed(
            lambda member: (member.equivalent,), right=True
        ),
        "mixed: wrong": lambda: _mixed(lambda member: member.wrong, right=False),
        "groups of 8: mixed": _mixed_groups,
    }
    if data is None:
        return made
    return {
        "gsm8k: recorded outputs": lambda: _gsm8k(data),
        "gsm8k: their answers alone": lambda: _answers_only(_gsm8k(data)),
        "math: recorded outputs": lambda: _recorded(data / "recorded/math_labelled.jsonl"),
        "math: published solutions": lambda: _solutions(data),
        **made,
        "contest golds: wrong": lambda: _wrong_for_golds(data),
        "groups of 8: recorded": lambda: _recorded_groups(data),
        "groups of 8: MATH-500": lambda: _solution_groups(data),
    }


def _rows(path: pathlib.Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _recorded(path: pathlib.Path) -> Items:
    return [MathItem(gold=row["gold"], text=row["text"]) for row in _rows(path)]


def _gsm8k(data: pathlib.Path) -> Items:
    labelled = [
        MathItem(gold=row["reference"].rpartition("A:")[2].strip(), text=row["text"])
        for row in _rows(data / "recorded/gsm8k_labelled.jsonl")
    ]
    return labelled + _recorded(data / "recorded/gsm8k_qwen7b_paths.jsonl")


def _answers_only(items: Items) -> Items:
    """The extracted answers without the reasoning, so that extraction is cheap."""
    found = [(item.gold, extract(item.text)) for item in items]
    return [
        MathItem(gold=gold, text=boxed(extraction.answer.replace("$", "")))
        for gold, extraction in found
        if extraction
    ]


def _solutions(data: pathlib.Path) -> Items:
    return [
        MathItem(gold=row["answer"], text=row["solution"], right=True)
        for row in _rows(data / "math500/test.jsonl")
    ]


def _members() -> list[Member]:
    return [family(_FIRST + n) for n in range(NUM_GOLDS) for family in FAMILIES]


def _mixed(answers: Callable[[Member], Sequence[str]], *, right: bool) -> Items:
    return [
        MathItem(gold=member.gold, text=boxed(answer), right=right)
        for member in _members()
        for answer in answers(member)
    ]


def _hard_golds(data: pathlib.Path) -> list[str]:
    """Golds of MATH-500 and HMMT that are not plain numbers."""
    rows = _rows(data / "math500/test.jsonl") + _rows(data / "hmmt25/test.jsonl")
    golds = dict.fromkeys(str(row["answer"]) for row in rows)
    return [gold for gold in golds if exact_value(normalize(gold)) is None]


def _wrong_for_golds(data: pathlib.Path) -> Items:
    golds = _hard_golds(data)
    return [
        MathItem(gold=gold, text=boxed(answer))
        for gold, other in zip(golds, golds[1:] + golds[:1], strict=True)
        for answer in (_change_number(gold, 1, instead=other), other)
    ]


def _change_number(answer: str, change: int, *, instead: str) -> str:
    """The answer with its first number changed; ``instead`` if it has none."""
    altered, times = _INTEGER.subn(lambda number: str(int(number[0]) + change), answer, count=1)
    return altered if times else instead


def _recorded_groups(data: pathlib.Path) -> Items:
    """Groups as they were sampled: 40 MATH problems, 100 GSM8K problems."""
    items = []
    for name, size in (("math_labelled", 8), ("gsm8k_qwen7b_paths", 10)):
        rows = _recorded(data / f"recorded/{name}.jsonl")
        items += [item for place, item in enumerate(rows) if place % size < GROUP_SIZE]
    return items


def _solution_groups(data: pathlib.Path) -> Items:
    """Every fourth MATH-500 problem: its solution with sampled final answers."""
    rows = _rows(data / "math500/test.jsonl")[::4]
    answers = [row["answer"] for row in rows]
    items = []
    for row, other in zip(rows, answers[1:] + answers[:1], strict=True):
        gold = row["answer"]
        wrong = [_change_number(gold, change, instead=other) for change in (1, 2, 3)]
        before = row["solution"].rpartition("\\boxed")[0]
        items += [
            MathItem(gold=gold, text=f"{before}\\boxed{{{answer}}}.$")
            for answer in _sampled(gold, [gold], wrong)
        ]
    return items


def _mixed_groups() -> Items:
    """Every third mixed gold: right answers in two forms, wrong ones of four values."""
    items = []
    for member in _members()[::3]:
        others = [_change_number(wrong, 5, instead=wrong) for wrong in member.wrong]
        spelled = [member.gold, member.equivalent]
        items += [
            MathItem(gold=member.gold, text=boxed(answer))
            for answer in _sampled(member.gold, spelled, [*member.wrong, *others])
        ]
    return items


def _sampled(gold: str, right: Sequence[str], wrong: Sequence[str]) -> list[str]:
    """Eight answers with the repetition of a sampled group.

    The number of right ones is uniform from 0 to 8; each value, like each form of the right one, is
    half as likely as the one before.
    """
    chance = child_random(0, "groups of 8", gold)
    num_right = chance.randint(0, GROUP_SIZE)
    answers = [_drawn(chance, right) for _ in range(num_right)]
    answers += [_drawn(chance, wrong) for _ in range(GROUP_SIZE - num_right)]
    chance.shuffle(answers)
    return answers


def _drawn(chance: random.Random, values: Sequence[str]) -> str:
    weights = [0.5**rank for rank in range(len(values))]
    return chance.choices(values, weights)[0]


def ordinary_items(number: int) -> Items:
    """Distinct items of all costs: every third is a number, the others are mixed LaTeX."""
    formulas = (
        MathItem(gold=member.gold, text=boxed(answer), right=answer not in member.wrong)
        for n in itertools.count(_FIRST)
        for member in (family(n) for family in FAMILIES)
        for answer in (member.gold, member.equivalent, *member.wrong)
    )
    return [
        next(formulas)
        if place % 3
        else MathItem(gold=f"{7 * place}", text=f"#### {7 * place + place % 2}")
        for place in range(number)
    ]


HOSTILE: Mapping[str, str] = {
    "tower": boxed("10^{10^{10}}"),
    "tower of operators": boxed("9**9**9**9"),
    "factorial of factorial": boxed("((9!)!)!"),
    "binomial": boxed("\\binom{10^9}{5 \\cdot 10^8}"),
    "symbolic binomial": boxed("\\binom{x}{300}"),
    "expansion": boxed("\\int_0^1 (x+y+z+w+a+b+c)^{60} dx"),
    "500 parentheses": boxed("(" * 500 + "1" + ")" * 500),
    "500 fractions": boxed("\\frac{1}{" * 500 + "2" + "}" * 500),
    "500 open braces": "\\boxed{" * 500 + "1",
    "3,000 terms": boxed("+".join(f"{n}x^{{{n}}}" for n in range(1, 3001))),
    "2,000 elements": boxed("\\{" + ",".join(map(str, range(2000))) + "\\}"),
    "1 MB of text": "x" * 1_000_000,
    "1 MB in the box": boxed("x+" * 500_000 + "1"),
    "1 MB of digits": boxed("7" * 1_000_000),
    "20,000 dollar signs": "$" * 20_000,
    "NUL": boxed("5\0x"),
    "lone surrogate": boxed("\ud800x"),
    "nothing": "",
    "all answers": boxed(", ".join(map(str, range(90)))),
    "integral": boxed("\\int_0^1 \\sin(x^x) \\cdot e^{\\cos(x^x)} dx"),
}
"""Answers that hang or crash a verifier without limits."""
