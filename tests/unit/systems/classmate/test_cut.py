"""Prefixes: whole steps, shares of their number, nothing behind the answer; the chains of a benchmark."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.classmate_chains import RANGES, falls, wrong_chain
from pipeline_lib.kinds.countdown import reachable
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.problems.countdown import generate
from pipeline_lib.systems.classmate.cut import cut_chain, draw_share, split_steps
from pipeline_lib.verify.dispatch import Item, open_verifier

SHARES = (0.25, 0.5, 0.75)


@pytest.mark.parametrize(
    ("chain", "steps"),
    [
        ("a\nb", ["a\n", "b"]),
        ("a\nb\n", ["a\n", "b\n"]),
        ("\n\na\n \n\nb", ["\n\na\n \n\n", "b"]),
        ("", []),
        (" \n\n", []),
    ],
)
def test_blank_lines_are_no_steps(chain, steps):
    """They belong to the step before them; those at the start to the first step."""
    assert split_steps(chain, "\n") == steps


def test_steps_of_another_separator():
    """Two sentences, by full stops."""
    assert split_steps("One. Two.", ".") == ["One.", " Two."]


@given(st.text(alphabet="ab \n.", max_size=40), st.sampled_from(["\n", ".", "\n\n"]))
def test_joined_steps_are_the_chain(chain, separator):
    """No character is lost, and every step has text, whatever the separator."""
    steps = split_steps(chain, separator)
    assert "".join(steps) == (chain if steps else "")
    assert all(step.strip() for step in steps)


@pytest.mark.parametrize(
    ("share", "steps", "kept"),
    [(0.25, 2, 0), (0.5, 2, 1), (0.75, 2, 1), (0.75, 4, 3), (0.29, 100, 29)],
)
def test_the_number_of_kept_steps_is_rounded_down(share, steps, kept):
    """A quarter of two steps is none; 0.29 x 100 is 29, though 28.999999999999996 in floating point."""
    lines = [f"{number}\n" for number in range(steps)]
    prefix = cut_chain(lines, share=share, first_leak=None)
    assert (prefix.text, prefix.kept, prefix.leaked) == ("".join(lines[:kept]), kept, False)


def test_no_prefix_reaches_the_answer():
    """Of 8 steps whose third gives the answer away, three quarters of all are 6, a leak; of the 3 steps
    up to the answer they are floor(2.25) = 2.
    """
    steps = [f"{number}\n" for number in range(8)]
    prefix = cut_chain(steps, share=0.75, first_leak=2)
    assert (prefix.text, prefix.kept, prefix.leaked) == ("0\n1\n", 2, True)


@given(
    st.integers(1, 20).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1))),
    st.sampled_from(SHARES),
    st.integers(0, 30),
)
def test_filler_behind_the_answer_changes_no_prefix(chain, share, filler):
    """With the answer in step ``first_leak``, further steps are neither kept nor counted."""
    size, first_leak = chain
    steps = [f"{number}\n" for number in range(size)]
    prefix = cut_chain(steps, share=share, first_leak=first_leak)
    longer = cut_chain([*steps, *["filler\n"] * filler], share=share, first_leak=first_leak)
    assert (prefix.text, prefix.kept) == (longer.text, longer.kept)
    assert prefix.kept <= first_leak


@given(
    st.lists(
        st.sampled_from(["1\n", "2\n", "3\n", "a 1\n", "b\n"]), min_size=1, max_size=6, unique=True
    ),
    st.sampled_from(SHARES),
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from([".\n", "* * *\n", None])), max_size=8),
)
def test_steps_without_anything_new_are_not_counted(steps, share, added):
    """Lines without a word, or that repeat the step before them, change neither the number of kept steps nor
    their content.
    """
    filler = {line for _, line in added if line}
    padded = [
        line
        for place, step in enumerate(steps)
        for line in (step, *(extra or step for where, extra in added if where == place))
    ]
    prefix = cut_chain(steps, share=share, first_leak=None)
    longer = cut_chain(padded, share=share, first_leak=None)
    assert longer.kept == prefix.kept
    lines = [line for line in longer.text.splitlines(keepends=True) if line not in filler]
    assert "".join(dict.fromkeys(lines)) == prefix.text


def test_a_step_of_known_numbers_belongs_to_the_step_before_it():
    """3*1=3 has no number that 4-3=1 lacks: of the two counted steps, half is the first with it."""
    steps = ["4-3=1\n", "3*1=3\n", "3+5=8\n"]
    prefix = cut_chain(steps, share=0.5, first_leak=None)
    assert (prefix.text, prefix.kept) == ("4-3=1\n3*1=3\n", 1)
    leaking = cut_chain(steps, share=0.5, first_leak=1)
    assert (leaking.text, leaking.kept) == ("4-3=1\n", 1)


def test_a_share_depends_on_seed_step_and_problem_alone():
    """Equal names give equal shares; over 300 problems each of three shares is drawn 60 to 140 times.

    The count is binomial with mean 100 and standard deviation 8.2.
    """
    assert draw_share(SHARES, 5, step=3, problem_id="p") == draw_share(
        SHARES, 5, step=3, problem_id="p"
    )
    drawn = [draw_share(SHARES, 5, step=3, problem_id=f"p{number}") for number in range(300)]
    assert all(60 < drawn.count(share) < 140 for share in SHARES)
    assert drawn != [draw_share(SHARES, 5, step=4, problem_id=f"p{n}") for n in range(300)]


def values_after(numbers, step):
    """The values that a step leaves, with its true result."""
    left, _, _ = step.partition("=")
    sign = next(sign for sign in "+-*/" if sign in left)
    one, two = map(int, left.split(sign))
    rest = list(numbers)
    rest.remove(one)
    rest.remove(two)
    true = {"+": one + two, "-": one - two, "*": one * two, "/": one // (two or 1)}[sign]
    return tuple(sorted([*rest, true]))


def test_one_step_is_wrong():
    """Every chain is wrong; the target is reachable before the wrong step, and not after it as it is written."""
    problems = generate(RANGES, seed=3, count=80)
    lines = [wrong_chain(problem, number) for number, problem in enumerate(problems)]
    items = [
        Item(gold=problem.gold, text=line["text"])
        for problem, line in zip(problems, lines, strict=True)
    ]
    with open_verifier(VerifyParams()) as verifier:
        assert not any(verdict.strict for verdict in verifier.judge(items))
    assert [line["wrong_step"] for line in lines] == [1, 2] * 40
    true_steps = 0
    for problem, line in zip(problems, lines, strict=True):
        values = problem.gold.numbers
        for number, step in enumerate(line["text"].split("\n"), start=1):
            if number > line["wrong_step"]:
                break
            after, written = values_after(values, step), int(step.partition("=")[2])
            is_true, leads_on = written in after, problem.gold.target in reachable(after)
            assert (is_true and leads_on) == (number < line["wrong_step"])
            true_steps += is_true and not leads_on
            values = after
    assert 20 <= true_steps <= 40


def test_falls_are_counted_at_the_wrong_step():
    """A fall at the wrong step, a fall at the right one before it, no success at all, no fall."""
    lines = [{"wrong_step": step} for step in (1, 2, 1, 2)]
    success = [[0.5, 0.0, 0.0], [0.5, 0.25, 0.0], [0.0, 0.0, 0.0], [0.25, 0.5, 0.5]]
    rows = [
        {"success": each, "lift": [None, each[1] - each[0], each[2] - each[1]]} for each in success
    ]
    assert falls(lines, rows) == {
        "chains": 4,
        "any success": 3,
        "falls at the wrong step": 2,
        "no step falls further": 2,
        "falls at a right step": 1,
        "right first step": 2,
        "success before the wrong step": 3,
        "success after it": 1,
    }
