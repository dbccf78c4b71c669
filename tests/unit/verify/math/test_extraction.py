"""Extraction: which of the numbers in a text is the answer, and by which rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.verify.math.extraction import Extraction, MathRule, extract

FOUND = {
    # A box beats every other rule; the last one counts, and one that was cut off does not.
    MathRule.BOXED: [
        (r"so \boxed{72}.", "72"),
        (r"\boxed{\frac{1}{2}} of it", r"\frac{1}{2}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"first \boxed{4}, hence, after more work, \boxed{5}", "5"),
        (r"\boxed{\boxed{6}}", "6"),
        (r"\boxed 7.", "7"),
        (r"\boxed{8} and then \boxed{9", "8"),
        (r"$\boxed{1}$ and $\boxed{2}$", "1, 2"),
        (r"\boxed{4} or \boxed{5}", "4, 5"),
        (r"<think>\boxed{3}</think> \boxed{4}", "4"),
        (r"\boxed{5}, in other words \boxed{}", "5"),
        (r"\boxed{3} <think>or is it \boxed{4}?", "3"),
        (r"\boxed{3}</s><s>Another question: \boxed{4}", "3"),
        (r"</think>\boxed{1}</think>\boxed{2}", "2"),
        ("\\boxed{10}\n#### 11\nThe answer is 12.", "10"),
        (r"\boxed{}", ""),
    ],
    # ``#### x`` as in GSM8K, be it a number or a sentence with the number in it.
    MathRule.HASHES: [
        ("48+24=72\n#### 72", "72"),
        ("#### $10", "$10"),
        ("#### 1,234", "1,234"),
        ("#### **5**", "5"),
        ("####72\n\nThus, the garden gave 768 fruits.", "72"),
        ("60 / 6 = 10\n#### Ann earned $10 for 50 minutes of work.", "$10"),
        ("750000 - 302000 = 448000\n#### The profit in 20 weeks is \\$448,000.", "\\$448,000"),
        ("#### Mr. Benson paid $476 in all.", "$476"),
        ("1200 / 20 = 60\n#### It takes 60 days to write 3 books of 400 pages each.", "60"),
        ("= 800 \\text{ dollars}\n#### After a shirt for $200, Mike will have $800.", "$800"),
        ("#### Betty needs $5 more to buy the wallet.", "$5"),
        ("#### In all, 5 thousand people came.", "5 thousand"),
        ("#### \\(\\frac{5}{7}\\)", "\\(\\frac{5}{7}\\)"),
        ("The answer is 3\n#### 4\r\n", "4"),
    ],
    # A sentence gives its number; several answers offered at once are kept as several.
    MathRule.ANSWER_LINE: [
        ("The answer is 18.", "18"),
        ("the final answer is: $\\pi$. I hope it is correct.", "$\\pi$"),
        ("The answer is $\\sqrt{2}$ meters.", "$\\sqrt{2}$"),
        ("The answer is \\(3x+1\\) where x is 2.", "\\(3x+1\\)"),
        ("**Answer:** $\\frac12$", "$\\frac12$"),
        ("### Final Answer:\nRoque takes a total of 16 hours to get to work.", "16"),
        ("16 - 7 = 9\nA: 18", "18"),
        ("A: 18\nA: 19", "19"),
        ("Answer: x = 5", "x = 5"),
        ("Answer = 3.5", "3.5"),
        ("The answer is:\n\\[\n3.5\n\\]", "3.5"),
        ("Answer: it has no bound. Hence the answer is 4.", "4"),
        ("The answer is 1, 2, 3, 4, 5", "1, 2, 3, 4, 5"),
        ("The answer is 18 dollars, not 20 dollars.", "18"),
        ("#### Step 2: add\n3 + 4 = 7\nThe answer is 7", "7"),
        ("```\n#### 3\n```\nThe answer is 7.", "7"),
        ("\\boxed{6}. Wait, a mistake. The answer is 7.", "7"),
        ("<answer>7</answer>", "7"),
        ('{"answer": "7"}', "7"),
        ("\\fbox{7}", "7"),
    ],
    # Without any marker, the number of the last line counts, or the number of its last equation.
    MathRule.LAST_NUMBER: [
        ("48 / 2 = 24\nShe sold 48 and then 24.", "24"),
        ("The percentage of flowers that are not roses is 75%.", "75%"),
        ("Thus it is -5.", "-5"),
        ("They paid $1,250.50 there", "$1,250.50"),
        ("thus \\frac{1}{2}", "\\frac{1}{2}"),
        ("It is 3/4 full", "3/4"),
        ("that is **75%**", "75%"),
        ("Dean has $38 - $17 = $21 left.", "$21"),
        ("The difference is 200-100 = 100 pounds", "100"),
        ("Then 12+8+18 = $38.00 on fruit.", "$38.00"),
        ("Sandra will babysit 45/9 = 5 times.", "5"),
        ("Hence 225 - 205 = 20 people did not go.", "20"),
        ("They contributed 225 x $4 = $900 to the fundraiser", "$900"),
        ("The number of balls that he did not hit is \\(110\\).", "\\(110\\)"),
        (
            "So, the mixed number for \\(\\frac{63}{5}\\) is \\(12 \\frac{3}{5}\\).",
            "\\(12 \\frac{3}{5}\\)",
        ),
        ("16 - 3 - 4 = 9 eggs of 16", "9"),
        ("We get 37. They have 42 apples left.", "42"),
        ("It is not 37. So there are 42 apples. Each is red.", "42"),
    ],
}


@pytest.mark.parametrize(
    ("rule", "text", "answer"),
    [(rule, *row) for rule, rows in FOUND.items() for row in rows],
)
def test_the_answer_is_found(rule, text, answer):
    """The first rule that applies gives the answer as it is written."""
    assert extract(text) == Extraction(answer=answer, rule=rule)


@pytest.mark.parametrize(
    "text", ["<think>\\boxed{3}", "[THINK] \\boxed{3}", "<|channel|>analysis<|message|>\\boxed{3}"]
)
def test_a_box_in_unfinished_reasoning_is_marked(text):
    """Reasoning that was never ended states no answer in the format that was asked for."""
    assert extract(text) == Extraction(answer="3", rule=MathRule.REASONING)


@pytest.mark.parametrize(
    "text",
    [
        "She sold 48 and then 24.",
        "so 10-3",
        "1, 2, 3, 4",
        "The answer is 4 or 5",
        "The answer is not 5.",
        "#### Ann earned $10 for 50 minutes of work.",
        "2 + 2 = 4\n#### Ann earned $10 for 50 minutes of work.",
        "3 + 4 = 7\nThe answer is not 7.",
        "x = 4, x = 5",
        "The answer is 5?",
    ],
)
def test_a_sentence_that_states_no_one_number_is_not_parsed(text):
    """Denied, doubted, or one of several of which no equation gave one: no rule looks further."""
    assert extract(text) is None


@pytest.mark.parametrize("text", ["", " \n ", "no number", "\0", "\ud800", "$" * 20_000, "####"])
def test_nothing_to_extract(text):
    """Without a rule that fires there is no answer."""
    assert extract(text) is None


@given(st.text())
def test_extraction_is_total(text):
    """No text raises, and an extraction names its rule."""
    found = extract(text)
    assert found is None or found.rule in MathRule


@given(st.text(alphabet=st.characters(blacklist_characters="\\{}")), st.integers(-999, 999))
def test_whatever_came_before_a_box_is_ignored(before, number):
    """A final box decides, after any text without boxes."""
    assert extract(f"{before}\\boxed{{{number}}}").answer == str(number)
