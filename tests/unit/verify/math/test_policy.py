"""docs/verification-policy.md: every rule, with its examples."""

import pathlib
import re

import pytest

from pipeline_lib.kinds.math import MathGold

POLICY = pathlib.Path(__file__).parents[4] / "docs" / "verification-policy.md"
SECTIONS = re.split(r"^### (.+)\n", POLICY.read_text("utf-8"), flags=re.MULTILINE)[1:]
RULES = dict(zip(SECTIONS[::2], SECTIONS[1::2], strict=True))
BULLET = re.compile(r"^- (accepted|refused|open): ((?:.+\n)+?)(?=- |\n|\Z)", re.MULTILINE)
EXAMPLE = re.compile(r"(`[^`]+`|\S+) (?:is not|is|and) (.+)")
ANSWERS = re.compile(r'`[^`]+`|"[^"]+"|[^\s`"]+')
LENIENT = {"accepted": True, "refused": False, "open": None}


def examples():
    """Gold, completion and score of every example; "50 and 0.5" are two golds' answers."""
    for name, body in RULES.items():
        for outcome, cell in BULLET.findall(body):
            for example in " ".join(cell.split()).split("; "):
                gold, answers = EXAMPLE.fullmatch(example).groups()
                for answer in ANSWERS.findall(
                    answers.replace(" and ", " ")
                    if '"' not in answers and "`" not in answers
                    else answers
                ):
                    label = f"{name}: {example} ({answer})"
                    yield pytest.param(_bare(gold), _text(answer), LENIENT[outcome], id=label)


def _bare(written):
    return written.strip().strip("`")


def _text(answer):
    quoted = answer.strip().startswith('"')
    return answer.strip().strip('"') if quoted else f"\\boxed{{{_bare(answer)}}}"


@pytest.mark.parametrize(("gold", "text", "score"), list(examples()))
def test_every_example_of_the_policy_holds(judge, gold, text, score):
    """An accepted answer is right, a refused one wrong, an open one has no score."""
    (verdict,) = judge.judge([(MathGold(answer=gold), text)])
    assert verdict.lenient is score


def test_the_document_is_read_whole():
    """31 rules, each with an example, and every bullet is read."""
    assert len(RULES) == 31
    assert all(BULLET.search(body) for body in RULES.values())
    bullets = [line for line in POLICY.read_text("utf-8").splitlines() if line.startswith("- ")]
    assert sum(len(BULLET.findall(body)) for body in RULES.values()) == len(bullets)
