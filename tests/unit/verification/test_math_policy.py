"""docs/verification-policy.md: every row of its table, with the examples that it gives."""

import pathlib
import re

import pytest

from pipeline_lib.params.paths import MathLimits
from pipeline_lib.records import MathGold
from pipeline_lib.verification.math_answer import MathJudge

POLICY = pathlib.Path(__file__).parents[3] / "docs" / "verification-policy.md"
ROWS = [
    re.split(r" *\| *", line.strip().removeprefix("| ").removesuffix("|"))
    for line in POLICY.read_text("utf-8").splitlines()
    if line.startswith("|") and not line.startswith(("| rule", "|---"))
]
EXAMPLE = re.compile(r"(`[^`]+`|\S+) (?:is not|is|and) (.+)")
ANSWERS = re.compile(r'`[^`]+`|"[^"]+"|[^\s`"]+')
LENIENT = {1: True, 2: False, 3: None}
"""By column: accepted, refused, open."""


@pytest.fixture(scope="module")
def judge():
    with MathJudge(MathLimits(), workers=1) as judge:
        yield judge


def examples():
    """Gold, completion and score of every example; "50 and 0.5" are two golds' answers."""
    for row in ROWS:
        name = row[0].partition(".")[0]
        for column, score in LENIENT.items():
            cell = row[column].strip(" |") if column < len(row) else ""
            for example in filter(None, cell.split("; ")):
                gold, answers = EXAMPLE.fullmatch(example).groups()
                for answer in ANSWERS.findall(
                    answers.replace(" and ", " ")
                    if '"' not in answers and "`" not in answers
                    else answers
                ):
                    label = f"{name}: {example} ({answer})"
                    yield pytest.param(_bare(gold), _text(answer), score, id=label)


def _bare(written):
    return written.strip().strip("`")


def _text(answer):
    quoted = answer.strip().startswith('"')
    return answer.strip().strip('"') if quoted else f"\\boxed{{{_bare(answer)}}}"


@pytest.mark.parametrize(("gold", "text", "score"), list(examples()))
def test_every_example_of_the_policy_holds(judge, gold, text, score):
    """What the table accepts is right, what it refuses is wrong, what it leaves open has no score."""
    (verdict,) = judge.judge([(MathGold(answer=gold), text)])
    assert verdict.lenient is score


def test_the_table_is_read_whole():
    """22 rules, each with an example."""
    assert len(ROWS) == 22
    assert all(any(cell.strip(" |") for cell in row[1:]) for row in ROWS)
