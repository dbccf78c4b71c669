"""Math verdicts end to end: hostile and damaged output, batches, memo, deadlines."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.paths import MathLimits
from pipeline_lib.verdicts import Status
from pipeline_lib.verify.math.judge import MathJudge


def _judged(judge, gold, text):
    return judge.judge([(MathGold(answer=gold), text)])[0]


def _scores(verdict):
    return verdict.status, verdict.strict, verdict.lenient


RIGHT = (Status.CORRECT, True, True)
RIGHT_IN_ANOTHER_FORM = (Status.CORRECT, False, True)
WRONG = (Status.WRONG, False, False)
UNPARSED = (Status.UNPARSED, False, False)
NOT_JUDGED = (Status.VERIFIER_ERROR, None, None)


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("x^2-1", "(x-1)(x+1)"),
        ("2\\sqrt{3}", "\\sqrt{12}"),
        ("1,-2", "-2, 1"),
        ("6 - 5i", "-5i + 6"),
        ("y = 2x + 3", "y = 3 + 2x"),
        ("1 \\pm \\sqrt{19}", "1+\\sqrt{19}, 1-\\sqrt{19}"),
        ("\\left( 3, \\frac{\\pi}{2} \\right)", "(3, \\pi/2)"),
        (
            "\\begin{pmatrix} 1/5 \\\\ -18/5 \\end{pmatrix}",
            "\\begin{bmatrix}0.2\\\\-3.6\\end{bmatrix}",
        ),
        ("(-\\infty, 0]", "(-\\infty,0]"),
        ("\\text{(C)}", "C"),
        ("\\cot x", "\\frac{1}{\\tan x}"),
        (
            "\\begin{cases} 1 & x \\le 0 \\\\ 2 & x > 0 \\end{cases}",
            "\\begin{cases} 2 & x > 0 \\\\ 1 & \\text{otherwise} \\end{cases}",
        ),
        ("\\frac{1}{3}", "x = \\frac{1}{3} \\approx 0.333"),
        ("\\sqrt{2}", "x = \\sqrt{2}"),
        ("5", "2+3=5"),
        ("1, 2", "1\\text{ and }2"),
        ("1\\text{ or }2", "1, 2"),
    ],
)
def test_equal_by_meaning(judge, gold, answer):
    """Equal expressions in another form are right; a derivation counts by its result; "and" joins values."""
    assert _scores(_judged(judge, gold, f"Thus \\boxed{{{answer}}}.")) == RIGHT


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("x^2-1", "x^2+1"),
        ("1,-2", "1"),
        ("(3,4]", "[3,4]"),
        ("(2,\\infty\\ldots)", "(2,\\infty)"),
        ("(2,\\infty)", "(2,\\infty')"),
        ("5", "4 or 5"),
        ("5", "1, 2, 3, 4, 5, 6, 7, 8, 9"),
        ("5", "\\text{4 or 5}"),
        ("5", "5\\text{ or 6}"),
        ("5", "5 \\text{ or any}"),
        ("5", "5\\text{ 6}"),
        ("5", "\\{5, 6\\}"),
        ("5", "5 \\pm 1"),
        ("5", "5 \\quad 6"),
        ("5", "x=4, x=5"),
        ("5", "x=4=5"),
        ("5", "4=5"),
        ("5", "6 \\approx 5"),
        ("5", "x \\le 5"),
        ("5", "x"),
        ("0", "\\emptyset"),
    ],
)
def test_different_by_meaning(judge, gold, answer):
    """Another value is wrong, and so is a choice of values that holds the right one."""
    assert _scores(_judged(judge, gold, f"Thus \\boxed{{{answer}}}.")) == WRONG


@pytest.mark.parametrize(
    ("gold", "text", "scores"),
    [
        ("5", "\\boxed{((9!)!)!}", WRONG),
        ("5", "\\boxed{10^{10^{10}}}", WRONG),
        ("5", "\\boxed{9**9**9**9}", WRONG),
        ("5", "\\boxed{" + "(" * 500 + "1" + ")" * 500 + "}", WRONG),
        ("5", "\\boxed{" + "\\frac{1}{" * 500 + "2" + "}" * 500 + "}", WRONG),
        ("-1", "\\boxed{" + "+".join(f"{n}x^{{{n}}}" for n in range(1, 1300)) + "}", WRONG),
        ("-1", "\\boxed{" + "+".join(f"{n}x^{{{n}}}" for n in range(1, 3001)) + "}", UNPARSED),
        ("5", "\\boxed{\\{" + ",".join(map(str, range(2000))) + "\\}}", WRONG),
        ("5", "x" * 1_000_000, UNPARSED),
        ("5", "\\boxed{" + "x" * 1_000_000 + "}", UNPARSED),
        ("5", "$" * 20_000, UNPARSED),
        ("-5", "\\boxed{\u22125}", RIGHT),
        ("5", "\\boxed{\uff15}", RIGHT),
        ("5", "\\boxed{\u0665}", RIGHT),
        ("5", "\\boxed{5\0}", UNPARSED),
        ("5", "\\boxed{\ud800}", WRONG),
        ("x", "\\boxed{\ud800}", UNPARSED),
        ("5", "\\boxed{}", UNPARSED),
        ("5", "", UNPARSED),
        ("", "\\boxed{5}", NOT_JUDGED),
        (" $$ ", "\\boxed{}", NOT_JUDGED),
        ("\\frac{", "\\boxed{x}", NOT_JUDGED),
        ("N/A", "\\boxed{5}", NOT_JUDGED),
        ("x", "\\boxed{" + "x+" * 400 + "1}", NOT_JUDGED),
        ("The answer is 24", "\\boxed{24}", RIGHT),
        ("5", "\\boxed{5=5}", RIGHT),
        ("5", "\\boxed{4} no, wait: \\boxed{5}", RIGHT),
        ("5", "\\boxed{5} no, wait: \\boxed{4}", WRONG),
        ("5", "\\boxed{4} or \\boxed{5}", WRONG),
        ("9" * 5000, "\\boxed{" + "9" * 5000 + "}", RIGHT),
        ("9" * 5000, "\\boxed{" + "9" * 4999 + "8}", WRONG),
        ("5", "<think>\\boxed{4}", WRONG),
        ("5", "<think>\\boxed{5}", RIGHT_IN_ANOTHER_FORM),
        ("5", "<think>it is 5", RIGHT_IN_ANOTHER_FORM),
        ("5", "<think>4</think>\\boxed{4}</think>\\boxed{5}", RIGHT),
        ("5", "therefore \\boxed{5", RIGHT_IN_ANOTHER_FORM),
        ("5", "\\boxed{4} so in the end \\boxed{5", WRONG),
        ("5", "\ufeffThe answer is:\r\n\r\n\\boxed{5}\r\n", RIGHT),
        ("5", "\ufeff#### 5\r\n", RIGHT_IN_ANOTHER_FORM),
        ("5", b"\\boxed{5} \xff\xfe".decode("utf-8", "replace"), RIGHT),
        ("5", b"\\boxed{5} \xff\xfe".decode("utf-8", "surrogateescape"), RIGHT),
        ("5", "```\n4\n```\n```\n\\boxed{5}\n```", RIGHT),
    ],
)
def test_hostile_and_damaged_answers(judge, gold, text, scores):
    """Each of them, with tags, byte-order marks and bad bytes, too, gets the one verdict that fits, without holding anything up."""
    assert _scores(_judged(judge, gold, text)) == scores


def test_the_rule_and_the_answer_are_recorded(judge):
    """A verdict says what was taken for the answer and where it stood."""
    verdict = _judged(judge, "72", "48+24=72\n#### 72")
    assert (verdict.extracted, verdict.rule, verdict.strict) == ("72", "hashes", False)


def test_a_slow_answer_scores_nothing():
    """A deadline of the verifier is not the model's fault: no score, and the reason is kept."""
    limits = MathLimits(soft_timeout_s=0.3, hard_timeout_s=30.0)
    with MathJudge(limits, workers=1) as judge:
        verdict = _judged(judge, "5", "\\boxed{\\int_0^1 (x+y+z+w+a+b+c)^{60} dx}")
    assert _scores(verdict) == (Status.TIMEOUT, None, None)
    assert verdict.extracted == "\\int_0^1 (x+y+z+w+a+b+c)^{60} dx"


class _CountingPool:
    """A fake pool that counts questions."""

    def __init__(self, pool):
        self._pool = pool
        self.asked = []

    def judge(self, questions):
        self.asked += questions
        return self._pool.judge(questions)

    def close(self):
        self._pool.close()


def test_each_distinct_question_is_asked_once():
    """A group of 8 with 2 distinct hard answers and 2 numbers costs 2 questions, for ever."""
    texts = ["\\boxed{(x-1)(x+1)}", "\\boxed{x^2+1}", "\\boxed{5}", "#### 6"] * 2
    pairs = [(MathGold(answer="x^2-1"), text) for text in texts]
    with MathJudge(MathLimits(), workers=1) as judge:
        judge._pool = _CountingPool(judge._pool)
        first, second = judge.judge(pairs), judge.judge(pairs)
        asked = len(judge._pool.asked)
    # "5" and "6" against x^2-1 are hard as well: a gold without a value says nothing by itself.
    assert asked == 4
    assert [_scores(v) for v in first] == [_scores(v) for v in second]


@settings(max_examples=50)
@given(texts=st.lists(st.text(max_size=12).map(lambda text: f"\\boxed{{{text}}}"), max_size=5))
def test_any_batch_gets_one_verdict_each(judge, texts):
    """Judging is total: as many verdicts as items, each with both scores or none."""
    verdicts = judge.judge([(MathGold(answer="7"), text) for text in texts])
    assert len(verdicts) == len(texts)
    assert all((v.strict is None) == (v.lenient is None) for v in verdicts)


def test_published_solutions_are_right(judge, data_folder):
    """Every boxed MATH-500 solution is judged right against its own gold."""
    lines = (data_folder / "math500" / "test.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    verdicts = judge.judge([(MathGold(answer=row["answer"]), row["solution"]) for row in rows])
    refused = [
        (row["unique_id"], row["answer"], v.extracted, v.status)
        for row, v in zip(rows, verdicts, strict=True)
        if not v.strict
    ]
    assert refused == []
