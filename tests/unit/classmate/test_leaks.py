"""The step that gives the answer away, by each rule and kind of answer."""

import pytest

from pipeline_lib.classmate.leaks import Chain, first_leaks
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.records import Problem
from pipeline_lib.verdicts import Status, Verdict
from pipeline_lib.verification.dispatch import open_verifier

EGGS = Problem(
    id="eggs",
    question="Ducks lay 16 eggs a day; 3 are eaten, 4 baked. The rest sell for $2. How much?",
    gold=MathGold(answer="18"),
    source="test",
)
HALF = Problem(id="half", question="Half of it?", gold=MathGold(answer="\\frac{1}{2}"), source="t")
SUMS = Problem(
    id="sums", question="?", gold=CountdownGold(numbers=(2, 3, 4), target=20), source="t"
)


def leak_of(problem: Problem, *steps: str) -> int | None:
    with open_verifier(VerifyParams()) as verifier:
        return first_leaks([Chain(problem=problem, steps=steps)], verifier)[0]


@pytest.mark.parametrize("marker", ["\\boxed{7}", "#### 7", "<answer>7", "</answer>"])
def test_an_answer_marker_is_a_leak_even_of_a_wrong_answer(marker):
    """A peer that copies it would be judged on the copy."""
    assert leak_of(EGGS, "16 - 3 = 13\n", f"{marker}\n", "more\n") == 1


def test_the_gold_as_a_number_is_a_leak():
    """9 x 2 = 18 states the gold 18 before the box does."""
    steps = ("16 - 3 - 4 = 9 are sold.\n", "9 * $2 = $18.00\n", "\\boxed{18}\n")
    assert leak_of(EGGS, *steps) == 1


@pytest.mark.parametrize("step", ["118 eggs\n", "1,800 eggs\n", "0.18\n"])
def test_another_number_with_the_digits_of_the_gold_is_no_leak(step):
    """Numbers are compared by value, not as text: 118, 1800 and 0.18 are not 18."""
    assert leak_of(EGGS, step, "and so on\n") is None


def test_a_gold_that_the_question_states_is_no_leak_by_itself():
    """The question has 16: a step with 16 among others tells nothing."""
    problem = Problem(id="q", question=EGGS.question, gold=MathGold(answer="16"), source="test")
    assert leak_of(problem, "Of 16, 3 and 4 are gone.\n", "Then half.\n") is None


@pytest.mark.parametrize("step", ["It is 1/2 of 1.\n", "\\dfrac{1}{2} of 1.\n", "0.5 of 1.\n"])
def test_a_fraction_is_found_in_any_notation(step):
    """The gold is one half."""
    assert leak_of(HALF, "Divide.\n", step) == 1


def test_a_solution_is_a_leak_though_text_follows_it():
    """2 + 3 = 5, then 5 * 4 = 20 solve 2, 3, 4 -> 20; the filler would hide it from a verdict on the whole.

    The same steps with 5 * 4 = 21 solve nothing.
    """
    filler = ("1*1=1\n", "1*1=1\n")
    assert leak_of(SUMS, "2+3=5\n", "5*4=20\n", *filler) == 1
    assert leak_of(SUMS, "2+3=5\n", "5*4=21\n", *filler) is None


def test_a_text_that_the_verifier_could_not_judge_is_not_shown():
    """A failed verifier knows of no answer, which is not the same as none."""

    class Failing:
        def judge(self, items):
            failed = Verdict(status=Status.VERIFIER_ERROR, strict=None, lenient=None)
            return [failed for _ in items]

    assert first_leaks([Chain(problem=SUMS, steps=["2+3=5\n"])], Failing()) == [0]


def test_equal_beginnings_are_judged_once():
    """Of two chains of two steps that share the first, three texts are judged."""
    judged = []

    class Wrong:
        def judge(self, items):
            judged.extend(item.text for item in items)
            return [Verdict(status=Status.WRONG, strict=False, lenient=False) for _ in items]

    chains = [Chain(problem=SUMS, steps=["2+3=5\n", last]) for last in ("5*4=21", "5*4=22")]
    assert first_leaks(chains, Wrong()) == [None, None]
    assert judged == ["2+3=5\n", "2+3=5\n5*4=21", "2+3=5\n5*4=22"]
