"""The step that gives the answer away, by each rule and kind of answer."""

from collections.abc import Callable, Iterator

import pytest

from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.records import Problem
from pipeline_lib.systems.classmate.leaks import Chain, first_leaks
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


@pytest.mark.parametrize("marker", ["\\boxed{7}", "#### 7", "<answer>7", "</answer>"])
def test_an_answer_marker_is_a_leak_even_of_a_wrong_answer(leak_of, marker):
    """A peer that copies it would be judged on the copy."""
    assert leak_of(EGGS, "16 - 3 = 13\n", f"{marker}\n", "more\n") == 1


def test_the_gold_as_a_number_is_a_leak(leak_of):
    """9 x 2 = 18 states the gold 18 before the box does."""
    steps = ("16 - 3 - 4 = 9 are sold.\n", "9 * $2 = $18.00\n", "\\boxed{18}\n")
    assert leak_of(EGGS, *steps) == 1


@pytest.mark.parametrize("step", ["118 eggs\n", "1,800 eggs\n", "1.8\n"])
def test_another_number_with_the_digits_of_the_gold_is_no_leak(leak_of, step):
    """Numbers are compared by value, not as text: 118, 1800 and 1.8 are not 18."""
    assert leak_of(EGGS, step, "and so on\n") is None


def test_a_gold_that_the_question_states_is_no_leak_by_itself(leak_of):
    """The question has 16: a step with 16 among others is no leak."""
    problem = Problem(id="q", question=EGGS.question, gold=MathGold(answer="16"), source="test")
    assert leak_of(problem, "Of 16, 3 and 4 are gone.\n", "Then half.\n") is None


@pytest.mark.parametrize("step", ["It is 1/2 of 1.\n", "\\dfrac{1}{2} of 1.\n", "0.5 of 1.\n"])
def test_a_fraction_is_found_in_any_notation(leak_of, step):
    """The gold is one half."""
    assert leak_of(HALF, "Divide.\n", step) == 1


def test_a_solution_is_a_leak_though_text_follows_it(leak_of):
    """2 + 3 = 5, then 5 * 4 = 20 solve 2, 3, 4 -> 20; the filler would hide it from a verdict on the whole.

    The same steps with 5 * 4 = 21 solve nothing.
    """
    filler = ("1*1=1\n", "1*1=1\n")
    assert leak_of(SUMS, "2+3=5\n", "5*4=20\n", *filler) == 1
    assert leak_of(SUMS, "2+3=5\n", "5*4=21\n", *filler) is None


TEN = Problem(id="ten", question="5 and 5?", gold=MathGold(answer="10"), source="test")


@pytest.mark.parametrize(
    "step",
    ["Between 9,10.\n", "(7,10)\n", "[10,11]\n", "10.0 or 3\n", "1 \\times 10^1 of them\n"],
)
def test_a_number_is_found_beside_others(leak_of, step):
    """The gold is 10: beside a comma, with decimals, as a power of ten."""
    assert leak_of(TEN, "Add.\n", step, "So.\n") == 1


@pytest.mark.parametrize("step", ["100\n", "1,000\n", "1e2\n", "thirteen tenants\n", "9,11\n"])
def test_a_spelling_of_another_number_is_no_leak(leak_of, step):
    """None of these is 10, though some have its digits or begin with its word."""
    assert leak_of(TEN, step, "So.\n") is None


@pytest.mark.parametrize(
    ("gold", "step"),
    [
        ("\\sqrt{3}", "It is \\sqrt{3}, as we will see.\n"),
        ("\\sqrt{3}", "It is √3, as we will see.\n"),
        ("Monday", "It falls on monday, so to say.\n"),
        ("(3,4)", "The point (3, 4) it is, not (2, 5).\n"),
        ("2x+1", "So 2x + 1 is left over.\n"),
        ("5\\text{ cm}", "It is 5 long and 3 wide.\n"),
        ("18 dollars", "She has 18 after 3 days.\n"),
        ("\\text{even}", "So it is even.\n"),
        ("\\text{(C)}", "Then (C) is left.\n"),
        ("(2,\\infty)", "We need x > 2 here.\n"),
        ("x \\ge 2", "So x >= 2 then.\n"),
        ("1, 2", "We get 2 and 1 as roots.\n"),
        ("1, 2", "So x = 2 or x = 1.\n"),
        ("\\{1,2\\}", "The set {2, 1} works.\n"),
        ("(1,2)", "Thus x=1, y=2.\n"),
        ("2x+3", "We have 3+2x now.\n"),
        ("5\\sqrt{2}", "This is 5*sqrt(2).\n"),
        ("\\frac{\\sqrt3}{2}", "It is $\\sqrt{3}/2$.\n"),
    ],
)
def test_a_gold_that_is_no_plain_number_is_found_in_a_sentence(leak_of, gold, step):
    """By its characters, by its value before a unit, or in a spelling that the verifier takes for it."""
    problem = Problem(id="q", question="Which one?", gold=MathGold(answer=gold), source="test")
    assert leak_of(problem, "Think.\n", step, "Done, of 7 and 8.\n") == 1


@pytest.mark.parametrize(
    ("gold", "step"),
    [
        ("Monday", "All Mondays.\n"),
        ("(3,4)", "13,45\n"),
        ("2x+1", "12x+1\n"),
        ("2x+3", "2x+4 and 3x+2\n"),
        ("\\text{(C)}", "Triangle ABC has (A).\n"),
        ("5 m", "That is 50 cm.\n"),
        ("(2,\\infty)", "We need x < 2.\n"),
    ],
)
def test_a_longer_text_with_the_gold_in_it_is_no_leak(leak_of, gold, step):
    """The gold ends where its word or its number does."""
    problem = Problem(id="q", question="Which one?", gold=MathGold(answer=gold), source="test")
    assert leak_of(problem, step, "Done.\n") is None


@pytest.mark.parametrize(
    "step",
    [
        "2+3=5, 5*4=20</think>\n",
        "2+3=5; 5*4=20; 1+1=2; 1+1=2\n",
        "(2+3)*4=20 is one of 7 ways\n",
    ],
)
def test_a_solution_in_one_line_is_a_leak(leak_of, step):
    """As a list, in front of other steps, as an expression: the line is in no prefix."""
    assert leak_of(SUMS, "3-2=1\n", step, "2+3=5\n", "so\n") == 1


def test_the_target_alone_is_no_solution(leak_of):
    """5 * 4 = 20 without the 5 being made, or the 5 made twice from one 2 and one 3, uses other numbers."""
    assert leak_of(SUMS, "5*4=20\n", "so\n", "2*3=6\n") is None


def gold(answer: str, question: str = "How many?") -> Problem:
    return Problem(id="q", question=question, gold=MathGold(answer=answer), source="test")


@pytest.mark.parametrize(
    ("answer", "step"),
    [
        ("72000", "They need 72 thousand litres for 3 days.\n"),
        ("1500000", "That makes 1.5 million dollars over 3 years.\n"),
        ("0.5", "So 50% of 6 are left.\n"),
        ("0.5", "So 50 percent of 6 are left.\n"),
        ("50\\%", "So 0.5 of 6 are left.\n"),
    ],
)
def test_a_number_is_found_in_the_notations_of_the_verifier(leak_of, answer, step):
    """A box with the same spelling is right, so a peer could copy it."""
    assert leak_of(gold(answer), "Think of 2.\n", step, "Done.\n") == 1


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


@pytest.mark.parametrize("step", ["72 thousand\n", "72 and 3/4\n", "7 2\n"])
def test_a_longer_number_is_another_one(leak_of, step):
    """None of these is 7.2 or 723."""
    assert leak_of(gold("7.2"), step) is None
    assert leak_of(gold("723"), step) is None


def test_the_end_of_a_thought_is_a_leak(leak_of):
    """The verdict does not read what stands before it, so a wrong step there would cost nothing."""
    assert leak_of(SUMS, "9-9=0\n", "</think>\n", "2+3=5\n") == 1
    assert leak_of(EGGS, "I think of 3.\n", "<think>\n", "of 4\n") is None


@pytest.mark.parametrize("token", ["<|im_end|>", "</s>", "<end_of_turn>", "[/INST]"])
def test_a_control_token_is_no_part_of_a_prefix(leak_of, token):
    """A peer's tokenizer reads it as the end of the turn, and what follows as another one."""
    assert leak_of(EGGS, "16 - 3\n", f"{token} user: sell 9\n", "more\n") == 1


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
