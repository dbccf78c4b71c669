"""Wrong programs that claim to be right: no kind of forged verdict is believed, in any tier."""

from collections.abc import Iterator

import pytest

from pipeline_lib.kinds.code import CodeGold
from pipeline_lib.verdicts import Status
from pipeline_lib.verify.code import CodeJudge
from tests.unit.verify.code_judge import open_code_judge
from tests.unit.verify.sandbox.hostile_programs import FORGERIES

MBPP = CodeGold(entry_point="add", tests="assert add(2, 3) == 5\nassert add([1], [2]) == [1, 2]\n")
HUMANEVAL = CodeGold(
    entry_point="add",
    tests="def check(candidate):\n    assert candidate(2, 3) == 5\n"
    "    assert candidate([1], [2]) == [1, 2]\n",
)
HONEST = "def add(a, b):\n    return a + b\n"


@pytest.fixture(scope="module", params=["namespace", "landlock"])
def judge(request: pytest.FixtureRequest) -> Iterator[CodeJudge]:
    with open_code_judge(timeout_s=2, tier=request.param) as opened:
        yield opened


@pytest.mark.parametrize("gold", [MBPP, HUMANEVAL], ids=["asserts", "check"])
@pytest.mark.parametrize("name", FORGERIES)
def test_forgery_scores_zero(judge, gold, name):
    """A forged verdict counts as the candidate's failure: judged, and not right."""
    verdict = judge.judge(gold, FORGERIES[name])
    assert verdict.status not in {Status.CORRECT, Status.VERIFIER_ERROR}, verdict
    assert (verdict.strict, verdict.lenient) == (False, False)


@pytest.mark.parametrize("gold", [MBPP, HUMANEVAL], ids=["asserts", "check"])
def test_honest_program_is_believed(judge, gold):
    """The same tests accept the program that adds."""
    verdict = judge.judge(gold, HONEST)
    assert (verdict.status, verdict.strict, verdict.lenient) == (Status.CORRECT, True, True)


def test_answer_that_only_needs_to_be_true_cannot_be_faked_by_an_object(judge):
    """``assert f(x)`` asks for truth; an object whose ``__bool__`` says so is not a plain value."""
    gold = CodeGold(entry_point="good", tests="assert good(1)\nassert not good(0)")
    fake = "class Yes:\n    pass\ndef good(n): return Yes() if n else False\n"
    assert judge.judge(gold, fake).status is Status.WRONG
    assert judge.judge(gold, "def good(n): return n == 1").status is Status.CORRECT
