"""Generated pairs by class: wrong answers that look right, right ones in another notation.

The classes are in `benchmarks/math_verifier_errors.py` and `benchmarks/siege_math.py`, which count
them for any commit.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import siege_math
from benchmarks.lib.math_pairs import containers, quantities, sentences, symbols
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.verify.math.exact.quantity import leading_number, multiplier
from pipeline_lib.verify.math.exact.units import count_noun, parse_unit

CLASSES = (
    *quantities.CLASSES,
    *symbols.CLASSES,
    *containers.CLASSES,
    *sentences.CLASSES,
    *siege_math.CLASSES,
)
WORDS = st.text(alphabet="abcdefghijklmnopqrstuvwxyz", min_size=4, max_size=10)
FORMS = st.sampled_from(
    ["{n} {w}", "{n} \\text{{ {w}}}", "\\text{{{n} {w}}}", "\\text{{{w} }}{n}", "{w} {n}"]
)


def _judged(judge, pairs):
    return judge.judge([(MathGold(answer=gold), text) for gold, text, *_ in pairs])


@pytest.mark.parametrize("make", CLASSES, ids=lambda make: make.__name__)
def test_no_pair_of_the_class_is_confused(judge, make):
    """No wrong answer is accepted, and no right one refused or left open."""
    pairs = list(dict.fromkeys(make()))
    verdicts = _judged(judge, pairs)
    confused = [
        (gold, text, right, verdict.status)
        for (gold, text, right), verdict in zip(pairs, verdicts, strict=True)
        if (verdict.lenient is True) is not right
    ]
    assert len(pairs) >= 3
    assert confused == []


@settings(max_examples=100)
@given(number=st.integers(-999, 999), word=WORDS, form=FORMS)
def test_no_word_makes_a_number_right_unless_it_is_a_unit(judge, number, word, form):
    """A unit is dropped; any other word beside the number may deny it."""
    known = parse_unit(word) or count_noun(word) or multiplier(word) or leading_number(word)
    (verdict,) = _judged(judge, [(str(number), f"\\boxed{{{form.format(n=number, w=word)}}}")])
    assert known or verdict.lenient is not True


@settings(max_examples=30)
@given(items=st.lists(st.integers(-9, 9), min_size=2, max_size=4, unique=True), data=st.data())
def test_order_counts_in_tuples_alone(judge, items, data):
    """A permuted tuple is another tuple, a permuted set or list the same."""
    permuted = data.draw(st.permutations(items))
    listed, other = (", ".join(map(str, values)) for values in (items, permuted))
    pairs = [
        (form.format(listed), f"\\boxed{{{form.format(other)}}}")
        for form in ("({})", "\\{{{}\\}}", "{}")
    ]
    same = items == list(permuted)
    assert [verdict.lenient for verdict in _judged(judge, pairs)] == [same, True, True]


MULTIPLIERS = [("dozen", 12), ("hundred", 100)] + [
    (word, 1000**n)
    for n, word in enumerate(["thousand", "million", "billion", "trillion"], start=1)
]


@settings(max_examples=50)
@given(number=st.integers(1, 999), multiplier=st.sampled_from(MULTIPLIERS))
def test_a_multiplier_multiplies(judge, number, multiplier):
    """n thousand is 1000 n, and n is not n thousand."""
    word, factor = multiplier
    value = number * factor
    text = f"\\boxed{{{number} {word}}}"
    found = _judged(judge, [(str(value), text), (str(number), text)])
    assert [verdict.lenient for verdict in found] == [True, False]


@settings(max_examples=40)
@given(
    letters=st.sets(st.sampled_from("ABCDE"), min_size=1, max_size=3),
    others=st.sets(st.sampled_from("ABCDE"), min_size=1, max_size=3),
    mark=st.sampled_from(["({})", "\\text{{({})}}", "\\textbf{{{}}}", "{})"]),
)
def test_marks_of_choices_do_not_count(judge, letters, others, mark):
    """The same letters in any order and with any marks are the same choice, others are not."""
    gold = "\\text{" + ", ".join(sorted(letters)) + "}"
    answer = ", ".join(mark.format(letter) for letter in sorted(others, reverse=True))
    (verdict,) = _judged(judge, [(gold, f"\\boxed{{{answer}}}")])
    assert verdict.lenient is (letters == others)


@settings(max_examples=40)
@given(cycle=st.permutations("12345"), turn=st.integers(0, 4), other=st.permutations("12345"))
def test_a_cycle_may_begin_anywhere(judge, cycle, turn, other):
    """A rotated cycle is the same permutation; another order is the same only if it is a rotation."""
    rotations = {tuple(cycle[k:] + cycle[:k]) for k in range(5)}
    pairs = [
        (f"({' '.join(cycle)})", f"\\boxed{{({' '.join(row)})}}")
        for row in (cycle[turn:] + cycle[:turn], other)
    ]
    assert [v.lenient for v in _judged(judge, pairs)] == [True, tuple(other) in rotations]


@settings(max_examples=40)
@given(
    number=st.integers(1, 999),
    units=st.sampled_from([("Mg", "mg"), ("GB", "Gb"), ("MW", "mW"), ("km", "Km"), ("kPa", "kpa")]),
)
def test_case_counts_where_it_distinguishes_units(judge, number, units):
    """An answer in a unit of other case is right only if no other unit is written so."""
    pairs = [(f"{number} {units[0]}", f"\\boxed{{{number} {unit}}}") for unit in units]
    same, other = _judged(judge, pairs)
    assert same.lenient is True
    assert (other.lenient is True) is (units[1] == "Km")


@settings(max_examples=30)
@given(
    before=st.text(max_size=20),
    value=st.integers(-99, 99),
    tag=st.sampled_from(["think", "thinking", "reasoning"]),
)
def test_reasoning_that_was_never_ended_is_never_strictly_right(judge, before, value, tag):
    """Whatever stands in it; with an end and an answer behind it, it does not count."""
    draft = f"<{tag}>{before.replace('<', '')}\\boxed{{{value}}}"
    pairs = [(str(value), draft), (str(value), f"{draft}</{tag}>\\boxed{{{value + 1}}}")]
    assert [v.strict for v in _judged(judge, pairs)] == [False, False]
