"""Hostile answers in a batch: each is dealt with alone, and the other items do not notice."""

import itertools

import pytest

from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.paths import MathLimits
from pipeline_lib.verdicts import Status
from pipeline_lib.verify.math.judge import MathJudge

SLOW = {
    "expansion": "\\boxed{\\int_0^1 (x+y+z+w+a+b+c)^{60} dx}",
    "symbolic binomial": "\\boxed{\\binom{x}{300}}",
    "integral": "\\boxed{\\int_0^1 \\sin(x^x) \\cdot e^{\\cos(x^x)} dx}",
}
"""They pass the caps, and then take minutes or gigabytes."""

CHEAP = {
    "tower": "\\boxed{10^{10^{10}}}",
    "tower of operators": "\\boxed{9**9**9**9}",
    "factorial of factorial": "\\boxed{((9!)!)!}",
    "binomial": "\\boxed{\\binom{10^9}{5 \\cdot 10^8}}",
    "500 parentheses": "\\boxed{" + "(" * 500 + "1" + ")" * 500 + "}",
    "500 fractions": "\\boxed{" + "\\frac{1}{" * 500 + "2" + "}" * 500 + "}",
    "500 open boxes": "\\boxed{" * 500 + "1",
    "3,000 terms": "\\boxed{" + "+".join(f"{n}x^{{{n}}}" for n in range(1, 3001)) + "}",
    "2,000 elements": "\\boxed{\\{" + ",".join(map(str, range(2000))) + "\\}}",
    "1 MB of text": "x" * 1_000_000,
    "1 MB in the box": "\\boxed{" + "x+" * 500_000 + "1}",
    "1 MB of digits": "\\boxed{" + "7" * 1_000_000 + "}",
    "20,000 dollar signs": "$" * 20_000,
    "minus and digits of other scripts": "\\boxed{\u2212\uff15\u0665x}",
    "NUL": "\\boxed{5\0x}",
    "lone surrogates": "\ud800\0" * 1000,
    "nothing": "",
    "an empty box": "\\boxed{}",
    "an equation of numbers": "\\boxed{5=5}",
    "two answers": "\\boxed{4 or 5}",
    "all answers": "\\boxed{" + ", ".join(map(str, range(90))) + "}",
}
"""Answers that the caps, the extraction or the comparison of text decide."""


NOT_JUDGED = {Status.TIMEOUT, Status.MEMORY}


def _ordinary(number):
    """Numbers by two rules, and formulas that only SymPy can compare, right and wrong ones."""
    cycle = itertools.cycle([
        lambda n: (f"{n}", f"#### {n + n % 2}"),
        lambda n: (f"x^2-{n % 97}", f"\\boxed{{-{n % 89}+x^2}}"),
        lambda n: (f"{n % 50}\\pi", f"\\boxed{{\\pi \\cdot {n % 50}}}"),
        lambda n: (f"({n % 30}, {n % 7})", f"\\boxed{{({n % 30}, {n % 5})}}"),
        lambda n: (f"{n}", f"Hence it is \\boxed{{{n}.0}} or so."),
    ])  # fmt: skip
    pairs = [next(cycle)(n) for n in range(number)]
    return [(MathGold(answer=gold), text) for gold, text in pairs]


def _with_hostile(ordinary, texts):
    """One of ``texts`` before every nine ordinary items, each against a gold of its own."""
    mixed, hostile = [], itertools.cycle(texts)
    for place, pair in enumerate(ordinary):
        if place % 9 == 0:
            mixed.append((MathGold(answer=f"{place}\\sqrt{{3}}"), next(hostile), True))
        mixed.append((*pair, False))
    return mixed


def _rows_alone_and_together(ordinary, mixed, limits):
    with MathJudge(limits, workers=2) as judge:
        alone = judge.judge(ordinary)
    with MathJudge(limits, workers=2) as judge:
        together = judge.judge([(gold, text) for gold, text, _ in mixed])
    rows = [v.row() for v, (_, _, hostile) in zip(together, mixed, strict=True) if not hostile]
    return [v.row() for v in alone], rows, together


def test_hostile_items_do_not_change_the_verdicts_of_others():
    """With 10 hostile items among 100, the other 90 get what they get without them."""
    ordinary = _ordinary(90)
    mixed = _with_hostile(ordinary, [*SLOW.values(), *CHEAP.values()])
    limits = MathLimits(soft_timeout_s=0.5, hard_timeout_s=20.0)
    alone, rows, _ = _rows_alone_and_together(ordinary, mixed, limits)
    assert len(mixed) == 100
    assert rows == alone


@pytest.mark.slow
def test_two_hundred_hostile_items_among_two_thousand():
    """At full size and with the usual limits; no hostile answer is right; beyond a cap there is no verdict."""
    ordinary = _ordinary(1800)
    mixed = _with_hostile(ordinary, [*SLOW.values(), *CHEAP.values()])
    alone, rows, together = _rows_alone_and_together(ordinary, mixed, MathLimits())
    hostile = [v for v, (_, _, is_hostile) in zip(together, mixed, strict=True) if is_hostile]
    assert (len(mixed), len(hostile)) == (2000, 200)
    assert rows == alone
    uncapped = [v for v in hostile if not (v.detail or "").startswith("the answer is ")]
    assert len(uncapped) < len(hostile)
    assert not any(v.strict or v.lenient for v in hostile)
    assert {v.status for v in uncapped} <= {Status.WRONG, Status.UNPARSED} | NOT_JUDGED


@pytest.mark.parametrize("name", CHEAP)
def test_cheap_ones_are_settled(judge, name):
    """Against a number they are wrong or unreadable, against a formula at most open by size."""
    (verdict,) = judge.judge([(MathGold(answer="7"), CHEAP[name])])
    assert verdict.status in {Status.WRONG, Status.UNPARSED}
    assert (verdict.strict, verdict.lenient) == (False, False)
    (verdict,) = judge.judge([(MathGold(answer="7\\sqrt{3}"), CHEAP[name])])
    assert verdict.lenient is False or (verdict.detail or "").startswith("the answer is ")


@pytest.mark.parametrize("name", SLOW)
def test_slow_ones_score_nothing(judge, name):
    """A limit of the verifier that is hit is no verdict on the answer."""
    (verdict,) = judge.judge([(MathGold(answer="7\\sqrt{3}"), SLOW[name])])
    assert verdict.status in NOT_JUDGED
    assert (verdict.strict, verdict.lenient) == (None, None)
