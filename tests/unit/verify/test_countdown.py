"""Countdown: numbers are consumed one by one, arithmetic is exact, nothing is evaluated."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.verdicts import Status
from pipeline_lib.verify.countdown import judge

GOLD = CountdownGold(numbers=(3, 5, 3), target=24)  # (3+5)*3 = 24


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("3+5=8\n8*3=24", "steps"),
        ("5+3=8\n3*8=24\n", "steps"),
        (" 3 + 5 = 8\r\n\r\n8 * 3 = 24\r\n", "steps"),
        ("\ufeff3+5=8\n8\u00d73=24", "steps"),
        ("<think>3*3=9, no</think>\n3+5=8\n8*3=24", "steps"),
        ("Let me see.\n<answer>(3+5)*3</answer>", "answer_tag"),
        ("<answer> (3 + 5) \u00d7 3 = 24 </answer>", "answer_tag"),
        ("<answer>\n3+5=8\n8*3=24\n</answer>", "answer_tag"),
        ("<answer>3*3+5</answer> wait <answer>(3+5)*3</answer>", "answer_tag"),
        (r"The answer is \boxed{(3+5)\times 3}.", "boxed"),
        (r"\boxed{\frac{(3+5)\cdot 9}{3}} no: \boxed{\left(3+5\right)\cdot 3}", "boxed"),
        ("So (3+5)*3 = 24.", "last_line"),
        ("Answer:\n**(3+5)*3**", "last_line"),
        ("$$(3+5)\\cdot 3 = 24$$", "last_line"),
        ("First 3+5=8, then 8*3=24.", "steps_in_prose"),
        ("3+5=8; 8*3=24", "steps_in_prose"),
        ("1. 3+5=8\n2. 8*3=24", "steps_in_prose"),
        ("1) 3+5=8\n2) 8*3=24", "steps_in_prose"),
        ("- 3+5=8\n- 8*3=24\nThe target is reached.", "steps_in_prose"),
        ("Try 3*5=15, no. 3+5=8 and then 8*3=24", "steps_in_prose"),
        ("3+5=8\n8*3=24\n3", "steps_in_prose"),
        ("<answer>(3+5)*3", "last_line"),
    ],
)
def test_right_solutions_are_strict_in_the_formats_of_prompts_alone(text, rule):
    """Bare steps, or an expression in answer tags (the last ones), score in full; other forms leniently."""
    verdict = judge(GOLD, text)
    assert (verdict.status, verdict.rule, verdict.lenient) == (Status.CORRECT, rule, True)
    assert verdict.strict is (rule in {"steps", "answer_tag"})


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("8*3=24", "8 is not available"),
        ("3+5=8", "1 numbers are left over"),
        ("3+5=8\n8*5=40", "5 is not available"),
        ("3+5=8\n8*3=25", "it is 24"),
        ("3+5=8\n8+3=11", "the last value is 11, not 24"),
        ("3-3=0\n5/0=24", "division by zero"),
        ("5/3=1\n1*3=24", "it is 5/3"),
        ("<answer>3*5+3*3</answer>", "it uses 3,3,3,5, not 3,3,5"),
        ("<answer>(3+5)*3 = 25</answer>", "it is claimed to be 25"),
        ("<answer>3+5+3</answer>", "its value is 11, not 24"),
        ("<answer>(3+5)//3</answer>", "only + - * /"),
        ("<answer>24</answer>", "it uses 24"),
        ("<answer>35-3*3-2</answer>", "it uses"),
        ("<answer>__import__('os').getpid()</answer>", "not an arithmetic expression"),
        ("<answer>3**5**3</answer>", "not an arithmetic expression"),
        ("<answer>(3+5)(3)</answer>", "only + - * /"),
        ("<answer></answer>", "not an arithmetic expression"),
    ],
)
def test_wrong_solutions_say_why(text, detail):
    """A refused solution is wrong for both scores, with the reason."""
    verdict = judge(GOLD, text)
    assert (verdict.status, verdict.strict, verdict.lenient) == (Status.WRONG, False, False)
    assert detail in verdict.detail


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("<answer>4*6</answer>", "answer_tag"),
        ("<answer>7+7+4+6</answer>", "answer_tag"),
        ("<answer>4*6*1</answer>", "answer_tag"),
        (r"\boxed{4*6}", "boxed"),
        ("So it is 4*6", "last_line"),
        ("4*6=24", "steps"),
        ("So it is 4*6=24", "steps_in_prose"),
    ],
)
def test_every_number_is_used_once_in_every_form(text, rule):
    """24 from 4, 6 and 7 is not 4*6, which leaves 7 out, nor what uses 7 twice or a further 1."""
    verdict = judge(CountdownGold(numbers=(4, 6, 7), target=24), text)
    assert (verdict.status, verdict.strict, verdict.lenient) == (Status.WRONG, False, False)
    assert verdict.rule == rule


@given(st.lists(st.integers(1, 99), min_size=2, max_size=6), st.integers(1, 99))
def test_an_expression_is_right_for_its_own_numbers_alone(numbers, other):
    """The sum of the numbers is right for them, in any order; with one more, one fewer, or another one
    in the place of the first, it is wrong, though it hits the target.
    """
    text = f"<answer>{'+'.join(map(str, numbers))}</answer>"

    def is_right(*given_numbers: int) -> bool:
        return judge(CountdownGold(numbers=given_numbers, target=sum(numbers)), text).lenient

    assert is_right(*reversed(numbers))
    assert not is_right(*numbers, other)
    assert not is_right(*numbers[:-1])
    assert is_right(other, *numbers[1:]) == (other == numbers[0])


def test_a_last_line_with_too_few_numbers_is_read_where_there_are_no_steps():
    """Without any step there is nothing better to judge, so it is wrong with a reason, not unparsed."""
    verdict = judge(GOLD, "Let me think.\nI would say 3*8.")
    assert (verdict.status, verdict.rule) == (Status.WRONG, "last_line")
    assert verdict.detail == "it uses 3,8, not 3,3,5"


@pytest.mark.parametrize("text", ["", " \n\t", "no idea", "\0" * 50, "\ud800", "24", "\\boxed{24}"])
def test_no_solution_is_unparsed(text):
    """Text without a calculation scores 0 as unparsed."""
    verdict = judge(GOLD, text)
    assert (verdict.status, verdict.strict, verdict.lenient) == (Status.UNPARSED, False, False)


@pytest.mark.parametrize(
    "text",
    [
        "1+" * 500_000,
        "(" * 1_000_000,
        "<answer>" + "(" * 390,
        "<answer>" + "(" * 190 + "1" + ")" * 190 + "</answer>",
        "<answer>" + "-" * 390 + "1</answer>",
        "<answer>" + "9" * 1_000_000 + "</answer>",
        "<answer>" + "9*" * 190 + "9</answer>",
        "<answer>" * 125_000,
        "\\boxed{" * 140_000,
        "\\frac{" * 160_000,
        "1+1=2," * 160_000,
        "$" * 20_000,
        "\u0663+\u0665=\u0668 " * 100_000,
        "3+5=8\ud800\0" * 100_000,
    ],
)
def test_hostile_text_is_only_wrong(text):
    """Megabytes, deep nesting and huge numbers give an ordinary verdict of 0."""
    assert judge(GOLD, text).lenient is False


def test_long_reasoning_before_a_short_answer_is_read():
    """Only the end of a very long text is read, and it does not count as strict steps."""
    assert judge(GOLD, "hm " * 100_000 + "<answer>(3+5)*3</answer>").strict
    verdict = judge(GOLD, "\n" * 30_000 + "3+5=8\n8*3=24")
    assert (verdict.strict, verdict.lenient) == (False, True)


@given(st.text())
def test_any_text_gets_a_verdict(text):
    """Judging is total."""
    assert judge(GOLD, text).lenient in {True, False}


@given(st.lists(st.integers(1, 99), min_size=2, max_size=6), st.randoms(use_true_random=False))
def test_a_generated_solution_is_right_and_only_for_its_target(numbers, chance):
    """Steps that combine the numbers at random hit the value they end with, and no other."""
    steps, target = _random_steps(numbers, chance)
    gold = CountdownGold(numbers=tuple(numbers), target=target)
    off_by_one = CountdownGold(numbers=tuple(numbers), target=target + 1)
    extra = CountdownGold(numbers=(*numbers, 7), target=target)
    assert judge(gold, steps).strict
    assert judge(off_by_one, steps).status is Status.WRONG
    assert judge(extra, steps).status is Status.WRONG


def _random_steps(numbers: list[int], chance: random.Random) -> tuple[str, int]:
    pool = list(numbers)
    steps = []
    while len(pool) > 1:
        left = pool.pop(chance.randrange(len(pool)))
        right = pool.pop(chance.randrange(len(pool)))
        sign, result = chance.choice(
            [("+", left + right), ("-", left - right), ("*", left * right)]
        )
        steps.append(f"{left}{sign}{right}={result}")
        pool.append(result)
    return "\n".join(steps), pool[0]


@pytest.mark.parametrize(
    "form", ["{}", "<answer>{}</answer>", "\\boxed{{{}}}", "So {} = 27.", "${}$"]
)
@pytest.mark.parametrize(
    "expression", ["1)+(26", "(1))+((26)", "1)+26(", ")1+26(", "(1+26", "1+26)", "((1)+(26)"]
)
def test_parentheses_without_partners_are_malformed(form, expression):
    """Wrapped in one more pair they would be balanced: ``(1)+(26)`` is 27."""
    assert (
        judge(CountdownGold(numbers=(1, 26), target=27), form.format(expression)).lenient is False
    )


@given(st.lists(st.sampled_from(["1", "26", "+", "(", ")"]), min_size=3, max_size=9).map("".join))
def test_an_accepted_expression_is_balanced_as_written(expression):
    """Acceptance needs the text itself to be an expression, not the text in one more pair."""
    verdict = judge(CountdownGold(numbers=(1, 26), target=27), f"<answer>{expression}</answer>")
    depths = [
        expression[:end].count("(") - expression[:end].count(")")
        for end in range(len(expression) + 1)
    ]
    assert not verdict.lenient or (min(depths) == 0 and depths[-1] == 0)


@pytest.mark.parametrize(
    ("numbers", "target", "text", "right"),
    [
        # From a single 5, 5+5=10 takes a second 5 that is not there.
        ((5,), 10, "5+5=10", False),
        ((5, 5), 10, "5+5=10", True),
        # 8/(3-8/3) = 8/(1/3) = 24: intermediate fractions are exact, never rounded.
        ((3, 3, 8, 8), 24, "<answer>8/(3-8/3)</answer>", True),
        ((3, 3, 8, 8), 24, "\\boxed{\\frac{8}{3-\\frac{8}{3}}}", True),
        ((3, 8, 10), 15, "3-8=-5\n10--5=15", True),
    ],
)
def test_arithmetic_is_exact(numbers, target, text, right):
    """With each number once, over fractions and below zero."""
    assert judge(CountdownGold(numbers=numbers, target=target), text).lenient is right


QUOTIENTS = r"""
\frac{12}{3}
\dfrac{12}{3}
\frac{12}3
\frac {12} {3}
\frac{12}{3}=4
\left(\frac{12}{3}\right)
12 \div 3
[12]/[3]
""".strip().split("\n")
NO_QUOTIENTS = r"""
\boxed{\frac{12)}{(3}}
\boxed{\frac{12}}
\boxed{\frac12{3}}
\boxed{\frac{1}{2}{3}}
x12/3=4
1.12/3 = 4
7+12/3
y + 12/3
2^12/3
12/3.5
12/3x
12/3!
""".strip().split("\n")


@pytest.mark.parametrize("written", QUOTIENTS)
def test_boxed_quotients_are_read(written):
    """12/3 = 4, as LaTeX writes it."""
    verdict = judge(CountdownGold(numbers=(12, 3), target=4), f"\\boxed{{{written}}}")
    assert (verdict.status, verdict.rule) == (Status.CORRECT, "boxed")


@pytest.mark.parametrize(
    "text", [*NO_QUOTIENTS, "7+" + " " * 59 + "12/3=4, done", "7+" + " " * 420 + "12/3"]
)
def test_a_piece_of_another_expression_is_no_solution(text):
    """No parenthesis reaches out of a part of a fraction; adjacent characters belong to an expression."""
    assert judge(CountdownGold(numbers=(12, 3), target=4), text).lenient is False
