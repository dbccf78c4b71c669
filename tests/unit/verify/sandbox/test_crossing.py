"""Values between a program and its tests: wrong programs never pass, honest ones never get 0."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline_lib.kinds.code import CodeGold
from pipeline_lib.verdicts import Status
from pipeline_lib.verify.code import CodeJudge
from tests.unit.verify.code_judge import open_code_judge
from tests.unit.verify.sandbox import crossing_cases
from tests.unit.verify.sandbox.crossing_cases import WRONG, Case

CHEAP = 60
"""Cases of one class that every run judges, evenly over its grammar; all of them are slow."""


@pytest.fixture(scope="module")
def judge() -> Iterator[CodeJudge]:
    with open_code_judge(timeout_s=5) as opened:
        yield opened


def scores(judge: CodeJudge, cases: list[Case]) -> dict[str, tuple[bool | None, str | None]]:
    found = {}
    for case in cases:
        verdict = judge.judge(
            CodeGold(entry_point=case.entry_point, tests=case.tests), case.program
        )
        assert verdict.strict is verdict.lenient
        found[case.name] = (verdict.lenient, verdict.detail)
    return found


def some(cases: list[Case]) -> list[Case]:
    # A stride without a common factor with the sizes of the grammars, so that it meets all columns.
    return cases[:: max(1, len(cases) // CHEAP) | 1]


def judged(
    judge: CodeJudge, cases: list[Case], score: Callable[[bool | None], bool]
) -> dict[str, str | None]:
    """The cases whose score is not as asked, with their details."""
    return {name: detail for name, (s, detail) in scores(judge, cases).items() if not score(s)}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_program_never_passes(judge, name):
    """A sample of each class of the wrong: 0, or no score, never 1."""
    assert judged(judge, some(WRONG[name]()), lambda score: score is not True) == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_no_wrong_program_passes_at_all(judge, name):
    """All of them."""
    assert judged(judge, WRONG[name](), lambda score: score is not True) == {}


def test_undefined_name_is_our_failure(judge):
    """Whoever supplies it: no score, and the detail says which name it was."""
    found = scores(judge, crossing_cases.undefined())
    assert {score for score, _ in found.values()} == {None}
    assert "isclose" in str(found["isclose"][1])


def test_exceptions_that_tests_ask_for_are_carried(judge):
    """An honest program raises what tests expect, whatever their way of asking."""
    assert judged(judge, crossing_cases.asserted(), lambda score: score is True) == {}


NUMBERS = st.integers(-(10**6), 10**6) | st.floats(allow_nan=False, allow_infinity=False, width=32)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(value=NUMBERS, tolerance=st.floats(1e-9, 1e6), form=st.integers(0, 3))
def test_tolerance_refuses_nan_and_takes_the_value(judge, value, tolerance, form):
    """For any expected value and tolerance: the value passes, NaN does not."""
    test = (
        f"assert abs(f() - {value!r}) <= {tolerance!r}",
        f"assert not abs(f() - {value!r}) > {tolerance!r}",
        f"assert {tolerance!r} >= abs({value!r} - f())",
        f"assert not (f() > {value!r} + {tolerance!r} or f() < {value!r} - {tolerance!r})",
    )[form]
    gold = CodeGold(entry_point="f", tests=test)
    assert judge.judge(gold, f"def f(): return {value!r}").status is Status.CORRECT
    assert judge.judge(gold, "def f(): return float('nan')").lenient is False


def test_second_assert_is_controlled_too(judge):
    """One sound assert before it does not hide a vacuous one."""
    gold = CodeGold(entry_point="f", tests="assert f(1) == 1\nassert not abs(f(2) - 4) > 0.1")
    cheat = "def f(x): return 1 if x == 1 else float('nan')"
    assert judge.judge(gold, cheat).status is Status.REWARD_HACK


def test_change_of_an_argument_reaches_what_tests_read(judge):
    """After a call for its effect the list is as the program left it; after another, no score."""
    tests = "x = [3, 1]\nf(x)\nassert x == [1, 3]"
    sorting = "def f(x):\n    x.sort()\n    return 1\n"
    assert judge.judge(CodeGold(entry_point="f", tests=tests), sorting).status is Status.CORRECT
    tests = "x = [3, 1]\nassert f(x) == 1\nassert f(x) == 1 and x == [3, 1]"
    assert judge.judge(CodeGold(entry_point="f", tests=tests), sorting).lenient is None


SPIN = "import time\ndef f(x):\n    start = time.process_time()\n"
SPIN += "    while time.process_time() - start < x: pass\n    return x\n"


@pytest.fixture
def hurried() -> Iterator[CodeJudge]:
    with open_code_judge(timeout_s=0.5) as opened:
        yield opened


def test_waiting_program_scores_nothing(hurried):
    """It ends as a timeout, but the clock alone does not show that it is wrong."""
    gold = CodeGold(entry_point="f", tests="assert f(1) == 1")
    verdict = hurried.judge(gold, "import time\ndef f(x): time.sleep(60)\n")
    assert (verdict.status, verdict.strict, verdict.lenient) == (Status.TIMEOUT, None, None)


def test_slow_tests_are_not_the_programs_fault(hurried):
    """Tests that compute for ever end with no score."""
    gold = CodeGold(entry_point="f", tests="assert f(1) == 1\nwhile True: pass")
    assert hurried.judge(gold, "def f(x): return x\n").lenient is None


def test_machine_under_load_takes_no_score_away(hurried):
    """0.4 of 0.5 CPU seconds beside six busy loops: right, or not scored; never 0."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(6)]
    try:
        gold = CodeGold(entry_point="f", tests="assert f(0.4) == 0.4")
        assert [hurried.judge(gold, SPIN).lenient for _ in range(2)].count(False) == 0
    finally:
        for process in busy:
            process.kill()
            process.wait()


def test_cpu_seconds_end_an_endless_loop():
    """A program that gets its CPU seconds and does not end scores 0."""
    gold = CodeGold(entry_point="f", tests="assert f(1) == 1")
    with open_code_judge(timeout_s=0.2) as opened:
        # A machine that gives it no share of a core at all may leave it unscored, but not thrice.
        for _ in range(3):
            verdict = opened.judge(gold, "def f(x):\n    while True: pass\n")
            assert verdict.status is Status.TIMEOUT
            if verdict.lenient is False:
                return
            time.sleep(1)
    pytest.fail("never scored")
