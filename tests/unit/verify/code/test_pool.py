"""A pool of jails: the verdicts of a single one, and nothing left behind."""

import psutil

from pipeline_lib.killable.pool import MAX_STRAGGLERS, Pool
from pipeline_lib.kinds.code import CodeGold
from pipeline_lib.params.paths import CodeLimits, VerifyParams
from pipeline_lib.verdicts import Status, Verdict
from pipeline_lib.verify.code import CodeJudge, open_judge
from tests.unit.verify.code_judge import open_code_judge

GOLD = CodeGold(entry_point="f", tests="assert f(2) == 4\nassert f(3) == 6")
RIGHT = "def f(x):\n    return 2 * x\n"
WRONG = "def f(x):\n    return x + 2\n"
SLEEPS = "import time\ndef f(x):\n    time.sleep(600)\n"
SPINS = "def f(x):\n    while True:\n        pass\n"


class BrokenSandbox:
    """A sandbox with a bug."""

    def run(self, program, suite):  # noqa: ARG002 - the protocol's
        raise ZeroDivisionError("bug")

    def close(self):
        pass


def test_a_bug_of_the_sandbox_scores_nothing():
    """Whatever a jail raises costs its own item its score, and no more."""
    judge = CodeJudge(BrokenSandbox())
    with Pool(lambda: judge, num_workers=1) as pool:
        verdicts = pool.judge([(GOLD, RIGHT), (GOLD, "")])
    assert [(v.status, v.strict) for v in verdicts] == [
        (Status.VERIFIER_ERROR, None),
        (Status.MALFORMED, False),
    ]


def outcomes(verdicts: list[Verdict]):
    """All but the seconds; on a loaded machine the clock may end a loop before its CPU seconds do."""
    return [
        (v.status, v.extracted, v.rule)
        + (() if v.extracted == SPINS else (v.strict, v.lenient, v.detail))
        for v in verdicts
    ]


def test_the_same_verdicts_as_one_after_another():
    """Six programs that never end among twelve others: the pool says of each what one jail says."""
    programs = [RIGHT, SLEEPS, WRONG, SPINS] * 3 + [RIGHT, "1 / 0\n", "no code"] * 2
    pairs = [(GOLD, program) for program in programs]
    with open_code_judge(timeout_s=1.5) as judge:
        alone = {program: judge.judge(GOLD, program) for program in set(programs)}
    with open_judge(VerifyParams(code=CodeLimits(timeout_s=1.5)), workers=1) as pool:
        assert outcomes(pool.judge(pairs)) == outcomes([alone[program] for program in programs])


def test_nothing_is_left_of_the_jails():
    """After a batch with slow programs there are no more processes and descriptors than before."""
    process = psutil.Process()
    with open_code_judge():
        pass
    children, descriptors = process.children(recursive=True), process.num_fds()
    with open_judge(VerifyParams(code=CodeLimits(timeout_s=1.0)), workers=2) as pool:
        verdicts = pool.judge([(GOLD, program) for program in [SLEEPS] * 3 + [RIGHT]])
        assert [v.status for v in verdicts] == [Status.TIMEOUT] * 3 + [Status.CORRECT]
        jails = [child for child in process.children() if child not in children]
        assert 2 <= len(jails) <= 2 + MAX_STRAGGLERS
    assert process.children(recursive=True) == children
    # Fewer, if what an earlier test has left was collected meanwhile.
    assert process.num_fds() <= descriptors
