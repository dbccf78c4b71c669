"""The step that gives the answer away, by each rule and kind of answer."""

from collections.abc import Callable, Iterator

import pytest

from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.records import Problem
from pipeline_lib.systems.classmate.cut import Chain, first_leaks
from pipeline_lib.verdicts import Status, Verdict
from pipeline_lib.verify.dispatch import open_verifier

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
