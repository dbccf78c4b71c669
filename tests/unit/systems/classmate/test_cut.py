"""Prefixes: whole steps, shares of their number, nothing behind the answer; leaks; the chains of a benchmark."""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.classmate_chains import RANGES, falls, wrong_chain
from pipeline_lib.kinds.code import CodeGold
from pipeline_lib.kinds.countdown import CountdownGold, reachable
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.kinds.own import own_gold
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.problems.countdown import generate
from pipeline_lib.records import Problem
from pipeline_lib.systems.classmate.cut import (
    Chain,
    cut_chain,
    draw_shares,
    first_leaks,
    split_steps,
)
from pipeline_lib.verdicts import Status, Verdict
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
    [(0.25, 2, 0), (0.5, 2, 1), (0.75, 2, 1), (0.75, 4, 3), (0.29, 100, 29), (1.0, 3, 3)],
)
def test_the_number_of_kept_steps_is_rounded_down(share, steps, kept):
    """A quarter of two steps is none; 0.29 x 100 is 29, though 28.999999999999996 in floating point."""
    lines = [f"{number}\n" for number in range(steps)]
    prefix = cut_chain(lines, share=share, first_leak=None)
    assert (prefix.text, prefix.kept, prefix.leaked) == ("".join(lines[:kept]), kept, False)


def test_no_prefix_reaches_the_answer():
    """Of 8 steps whose third gives the answer away, three quarters of all are 6, a leak; of the 3 steps
    up to the answer they are floor(2.25) = 2. Of all 3 the one with the answer is left out.
    """
    steps = [f"{number}\n" for number in range(8)]
    for share in (0.75, 1.0):
        prefix = cut_chain(steps, share=share, first_leak=2)
        assert (prefix.text, prefix.kept, prefix.leaked) == ("0\n1\n", 2, True)


@given(
    st.integers(1, 20).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1))),
    st.sampled_from((*SHARES, 1.0)),
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
    st.sampled_from((*SHARES, 1.0)),
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

    def drawn(step):
        return [
            draw_shares(SHARES, 5, count=1, step=step, problem_id=f"p{number}")
            for number in range(300)
        ]

    assert drawn(3) == drawn(3) != drawn(4)
    assert all(60 < drawn(3).count([share]) < 140 for share in SHARES)


def test_several_shares_are_distinct():
    """All of them, where as many are asked for."""
    found = draw_shares(SHARES, 5, count=len(SHARES), step=3, problem_id="p")
    assert sorted(found) == sorted(SHARES)


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


EGGS = Problem(
    id="eggs",
    question="Ducks lay 16 eggs a day; 3 are eaten, 4 baked. The rest sell for $2. How much?",
    gold=MathGold(answer="18"),
    source="test",
)
HALF = Problem(
    id="half", question="Which part of it?", gold=MathGold(answer="\\frac{1}{2}"), source="t"
)
SUMS = Problem(
    id="sums", question="?", gold=CountdownGold(numbers=(2, 3, 4), target=20), source="t"
)


@pytest.fixture(scope="module")
def leak_of() -> Iterator[Callable[..., int | None]]:
    """The place of the first leak among the steps of a chain, by one verifier."""
    with open_verifier(VerifyParams()) as verifier:
        yield lambda problem, *steps: first_leaks([Chain(problem=problem, steps=steps)], verifier)[
            0
        ]


def gold(answer: str, question: str = "How many?") -> Problem:
    return Problem(id="q", question=question, gold=MathGold(answer=answer), source="test")


TEN = gold("10", "5 and 5?")


@pytest.mark.parametrize(
    ("problem", "step"),
    [
        # an answer marker, even of a wrong answer: a peer that copies it would be judged on the copy
        *((EGGS, marker) for marker in ("\\boxed{7}\n", "#### 7\n", "<answer>7\n", "</answer>\n")),
        # a control token: a peer's tokenizer reads it as the end of the turn
        *(
            (EGGS, f"{token} sell 9\n")
            for token in ("<|im_end|>", "</s>", "<end_of_turn>", "[/INST]")
        ),
        # the end of a thought: the verdict does not read what stands before it
        (SUMS, "</think>\n"),
        # the gold 18 before the box does
        (EGGS, "9 * $2 = $18.00\n"),
        # one half in any notation
        *((HALF, step) for step in ("It is 1/2 of 1.\n", "\\dfrac{1}{2} of 1.\n", "0.5 of 1.\n")),
        # beside a comma, with decimals, as a power of ten
        *((TEN, step) for step in ("Between 9,10.\n", "(7,10)\n", "[10,11]\n", "10.0 or 3\n")),
        (TEN, "1 \\times 10^1 of them\n"),
        # by its characters, by its value before a unit, or in a spelling that the verifier takes for it
        (gold("\\sqrt{3}"), "It is \\sqrt{3}, as we will see.\n"),
        (gold("\\sqrt{3}"), "It is √3, as we will see.\n"),
        (gold("Monday"), "It falls on monday, so to say.\n"),
        (gold("(3,4)"), "The point (3, 4) it is, not (2, 5).\n"),
        (gold("2x+1"), "So 2x + 1 is left over.\n"),
        (gold("5\\text{ cm}"), "It is 5 long and 3 wide.\n"),
        (gold("18 dollars"), "She has 18 after 3 days.\n"),
        (gold("\\text{even}"), "So it is even.\n"),
        (gold("\\text{(C)}"), "Then (C) is left.\n"),
        (gold("(2,\\infty)"), "We need x > 2 here.\n"),
        (gold("x \\ge 2"), "So x >= 2 then.\n"),
        (gold("1, 2"), "We get 2 and 1 as roots.\n"),
        (gold("1, 2"), "So x = 2 or x = 1.\n"),
        (gold("\\{1,2\\}"), "The set {2, 1} works.\n"),
        (gold("(1,2)"), "Thus x=1, y=2.\n"),
        (gold("2x+3"), "We have 3+2x now.\n"),
        (gold("5\\sqrt{2}"), "This is 5*sqrt(2).\n"),
        (gold("\\frac{\\sqrt3}{2}"), "It is $\\sqrt{3}/2$.\n"),
        # a box with the same spelling is right, so a peer could copy it
        (gold("72000"), "They need 72 thousand litres for 3 days.\n"),
        (gold("1500000"), "That makes 1.5 million dollars over 3 years.\n"),
        (gold("0.5"), "So 50% of 6 are left.\n"),
        (gold("0.5"), "So 50 percent of 6 are left.\n"),
        (gold("50\\%"), "So 0.5 of 6 are left.\n"),
        # as a list, in front of other steps, as an expression
        (SUMS, "2+3=5, 5*4=20</think>\n"),
        (SUMS, "2+3=5; 5*4=20; 1+1=2; 1+1=2\n"),
        (SUMS, "(2+3)*4=20 is one of 7 ways\n"),
    ],
)
def test_a_step_that_gives_the_answer_away(leak_of, problem, step):
    """Between steps that do not."""
    first = "3-2=1\n" if problem is SUMS else "Think.\n"
    assert leak_of(problem, first, step, "Done, so.\n") == 1


@pytest.mark.parametrize(
    ("problem", "step"),
    [
        # numbers are compared by value, not as text
        *((EGGS, step) for step in ("118 eggs\n", "1,800 eggs\n", "1.8\n", "<think>\n")),
        *((TEN, step) for step in ("100\n", "1,000\n", "1e2\n", "thirteen tenants\n", "9,11\n")),
        *(
            (gold(answer), s)
            for answer in ("7.2", "723")
            for s in ("72 thousand\n", "72 and 3/4\n", "7 2\n")
        ),
        # the question has 16, among others
        (gold("16", EGGS.question), "Of 16, 3 and 4 are gone.\n"),
        # the gold ends where its word or its number does
        (gold("Monday"), "All Mondays.\n"),
        (gold("(3,4)"), "13,45\n"),
        (gold("2x+1"), "12x+1\n"),
        (gold("2x+3"), "2x+4 and 3x+2\n"),
        (gold("\\text{(C)}"), "Triangle ABC has (A).\n"),
        (gold("5 m"), "That is 50 cm.\n"),
        (gold("(2,\\infty)"), "We need x < 2.\n"),
        # the 5 is not made: the target alone is no solution
        (SUMS, "5*4=20\n"),
    ],
)
def test_a_step_that_does_not(leak_of, problem, step):
    """It has digits, letters or a part of the answer."""
    assert leak_of(problem, step, "2*3=6\n" if problem is SUMS else "So.\n") is None


def test_a_solution_is_a_leak_though_text_follows_it(leak_of):
    """2 + 3 = 5, then 5 * 4 = 20 solve 2, 3, 4 -> 20; the filler would hide it from a verdict on the whole.

    The same steps with 5 * 4 = 21 solve nothing.
    """
    filler = ("1*1=1\n", "1*1=1\n")
    assert leak_of(SUMS, "2+3=5\n", "5*4=20\n", *filler) == 1
    assert leak_of(SUMS, "2+3=5\n", "5*4=21\n", *filler) is None


@pytest.mark.parametrize(
    ("question", "answer", "steps"),
    [
        ("Simplify $3t+4-6t+7t-4$.", "4t", ("Take $3t+4-6t+7t-4$.\n", "$10t-6t$\n", "$4t$\n")),
        (
            "Convert $\\frac{63}{5}$ to a mixed number.",
            "12\\frac{3}{5}",
            ("Divide $\\frac{63}{5}$.\n", "5 goes 12 times.\n", "So $12\\frac{3}{5}$.\n"),
        ),
    ],
)
def test_what_the_question_has_is_no_leak(leak_of, question, answer, steps):
    """The verifier takes the expression of the question for the answer; a peer has it anyway."""
    assert leak_of(gold(answer, question), *steps, "Done.\n") == 2


def test_a_beginning_that_the_verifier_could_not_judge_may_be_a_leak():
    """It may give the answer away or not, so no prefix reaches it; a step that states the solution is not judged."""

    class Failing:
        def judge(self, items):
            failed = Verdict(status=Status.VERIFIER_ERROR, strict=None, lenient=None)
            return [failed for _ in items]

    def found(*steps):
        return first_leaks([Chain(problem=SUMS, steps=steps)], Failing())

    assert found("2+3=5\n") == [0]
    assert found("2+3=5\n", "<answer>") == [0]
    assert found("<answer>") == [0]


def test_equal_beginnings_are_judged_once():
    """Of two chains of two steps that share the first, the question and three texts are judged."""
    judged = []

    class Wrong:
        def judge(self, items):
            judged.extend(item.text for item in items)
            return [Verdict(status=Status.WRONG, strict=False, lenient=False) for _ in items]

    chains = [Chain(problem=SUMS, steps=["2+3=5\n", last]) for last in ("5*4=21", "5*4=22")]
    assert first_leaks(chains, Wrong()) == [None, None]
    assert len(judged) == len({*judged})
    assert {"?", "2+3=5\n", "2+3=5\n5*4=21", "2+3=5\n5*4=22"} <= {*judged}


@pytest.mark.parametrize("filler", [" and more" * 60, "." * 900, " 1+" * 300 + " x"])
def test_a_solution_before_a_long_filler_is_a_leak(leak_of, filler):
    """In the same step, however long it is; the filler alone is none."""
    problem = Problem(
        id="long", question="?", gold=CountdownGold(numbers=(2, 3, 5, 8), target=48), source="t"
    )
    assert leak_of(problem, f"First (8-2)*(5+3)=48 is what I look at{filler}\n", "then\n") == 0
    assert leak_of(problem, f"First (8-2)*(5+3)=47 is what I look at{filler}\n", "then\n") is None


DOUBLE = Problem(
    id="double",
    question="Write double(n).",
    gold=CodeGold(entry_point="double", tests="assert double(4) == 8"),
    source="test",
)


@pytest.mark.parametrize(
    ("steps", "place"),
    [
        # right as soon as the line is there, with the fence still open; what follows hides nothing
        (["```python\n", "def double(n):\n", "    m = n + n\n", "    return m\n", "```\n"], 3),
        (["def double(n):\n", "    return 2 * n\n", "def double(n):\n", "    return n\n"], 1),
        (["def double(n):\n", "    m = n + 1\n", "    return m\n"], None),
        # a step with a right program and a wrong one behind it
        (
            [
                "Well.\n",
                "```\ndef double(n): return 2 * n\n```\n```\ndef double(n): return n\n```\n",
            ],
            1,
        ),
    ],
)
def test_leaks_of_code(leak_of, steps, place):
    """The first line with which the program passes its tests, in the sandbox."""
    assert leak_of(DOUBLE, *steps) == place


@pytest.mark.parametrize(
    ("question", "steps", "place"),
    [
        ("abba?", ("Backwards abba.\n", "Equal.\n", "So Yes, they are.\n"), 2),
        ("abba?", ("Backwards abba.\n", "yesterday\n"), None),
        # what the question has is no leak by itself; the whole text, a step alone and a beginning are judged
        ("yes or no: abba?", ("Is it yes?\n", "right\n", "yes\n"), 1),
        ("yes or no: abba?", ("Is it yes?\n", "Both.\n"), None),
    ],
)
def test_leaks_of_a_task_of_ones_own(question, steps, place):
    """The answer itself, and a step that the verifier takes."""

    class Own:
        def judge(self, items):
            right = [item.text.strip() == "right" for item in items]
            return [Verdict(status=Status.CORRECT, strict=one, lenient=one) for one in right]

    problem = Problem(id="own", question=question, gold=own_gold("yes"), source="test")
    assert first_leaks([Chain(problem=problem, steps=steps)], Own()) == [place]
