"""Jails side by side: a slow program is passed by the others, within a bound, and all is put away."""

import threading

import psutil
import pytest

from pipeline_lib.errors import SandboxUnavailableError
from pipeline_lib.kinds.code import CodeGold
from pipeline_lib.params.paths import CodeLimits, VerifyParams
from pipeline_lib.verdicts import Status, Verdict
from pipeline_lib.verify.code.judge import CodeJudge
from pipeline_lib.verify.code.pool import CodePool, open_judge
from pipeline_lib.verify.sandbox.client import JailRefusedError, RunReport
from pipeline_lib.verify.sandbox.tiers import OpenTier, open_tier
from pipeline_lib.verify.stragglers import MAX_STRAGGLERS, STRAGGLER_AFTER_S

GOLD = CodeGold(entry_point="f", tests="assert f(2) == 4\nassert f(3) == 6")
RIGHT = "def f(x):\n    return 2 * x\n"
WRONG = "def f(x):\n    return x + 2\n"
SLEEPS = "import time\ndef f(x):\n    time.sleep(600)\n"
SPINS = "def f(x):\n    while True:\n        pass\n"
GIVE_UP_S = 60.0
"""A test that hangs fails by then."""


class Ends:
    """Programs in order of their end, and the most that ran at once."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.most_at_work = 0
        self._num_at_work = 0
        self._changed = threading.Condition()

    def run(self, program: str) -> bool:
        """``after N`` ends when N others have, ``with N`` when N run at once and no more come."""
        how, _, number = program.partition(" ")
        with self._changed:
            self._num_at_work += 1
            self.most_at_work = max(self.most_at_work, self._num_at_work)
            self._changed.notify_all()
            met = True
            if how == "after":
                met = self._changed.wait_for(lambda: len(self.order) >= int(number), GIVE_UP_S)
            if how == "with":
                met = self._changed.wait_for(lambda: self.most_at_work >= int(number), GIVE_UP_S)
                self._changed.wait_for(
                    lambda: self.most_at_work > int(number), 3 * STRAGGLER_AFTER_S
                )
            self._num_at_work -= 1
            self.order.append(program)
            self._changed.notify_all()
        return met


class WaitingSandbox:
    """A fake jail. Its programs name the condition that they wait for, and fail if it never holds."""

    def __init__(self, ends: Ends) -> None:
        self.ends = ends
        self.closed = False

    def run(self, program, suite):  # noqa: ARG002 - the protocol's
        status = Status.WRONG if self.ends.run(program) else Status.TIMEOUT
        return RunReport(status=status, detail=program, output="", seconds=0.0)

    def close(self):
        self.closed = True


def waiting_judge(ends):
    return CodeJudge(OpenTier(name="waiting", sandbox=WaitingSandbox(ends)))


def waiting_pool(ends, *, num_workers, more=None):
    return CodePool(
        waiting_judge(ends), more or (lambda: waiting_judge(ends)), num_workers=num_workers
    )


def statuses(pool, programs):
    return [verdict.status for verdict in pool.judge([(GOLD, program) for program in programs])]


@pytest.fixture
def real_pool():
    try:
        pool = open_judge(VerifyParams(code=CodeLimits(timeout_s=1.5)), workers=1)
    except SandboxUnavailableError as error:
        pytest.skip(str(error))
    with pool:
        yield pool


@pytest.mark.parametrize("num_slow", [1, MAX_STRAGGLERS])
def test_slow_programs_are_passed_by_all_others(num_slow):
    """The first ones end only after the 20 behind them have; one worker, and none of them hangs."""
    ends = Ends()
    with waiting_pool(ends, num_workers=1) as pool:
        found = statuses(pool, [*["after 20"] * num_slow, *["quick"] * 20])
    assert found == [Status.WRONG] * (num_slow + 20)
    assert ends.order[:20] == ["quick"] * 20


@pytest.mark.parametrize("num_workers", [1, 2])
def test_no_more_programs_at_once_than_the_bound(num_workers):
    """More slow programs than places: the bound is reached, never passed, and all are judged."""
    ends = Ends()
    opened = []

    def more():
        opened.append(waiting_judge(ends))
        return opened[-1]

    bound = num_workers + MAX_STRAGGLERS
    with waiting_pool(ends, num_workers=num_workers, more=more) as pool:
        found = statuses(pool, [f"with {bound}"] * (bound + 3))
    assert found == [Status.WRONG] * (bound + 3)
    assert ends.most_at_work == bound
    assert len(opened) == bound - 1


def test_verdicts_are_in_the_order_of_the_programs():
    """Programs end in any order; each verdict belongs to its own program."""
    ends = Ends()
    programs = ["after 8", "a", "after 4", "b", "c", "d", "after 6", "e", "f"]
    with waiting_pool(ends, num_workers=2) as pool:
        verdicts = pool.judge([(GOLD, program) for program in programs])
    assert [verdict.detail for verdict in verdicts] == programs
    assert ends.order != programs


def test_no_room_for_another_jail_is_no_loss():
    """If no second jail can be opened, the first one judges everything in sequence."""
    ends = Ends()

    def refused():
        raise JailRefusedError("no memory")

    with waiting_pool(ends, num_workers=2, more=refused) as pool:
        assert statuses(pool, ["a", "b", "c", "d"]) == [Status.WRONG] * 4
    assert ends.most_at_work == 1


class BrokenSandbox:
    """A sandbox with a bug."""

    def run(self, program, suite):  # noqa: ARG002 - the protocol's
        raise ZeroDivisionError("bug")

    def close(self):
        pass


def test_a_bug_of_the_sandbox_scores_nothing():
    """Whatever a jail raises costs its own item its score, and no more."""
    judge = CodeJudge(OpenTier(name="broken", sandbox=BrokenSandbox()))
    with CodePool(judge, lambda: judge, num_workers=1) as pool:
        verdicts = pool.judge([(GOLD, RIGHT), (GOLD, "")])
    assert [(v.status, v.strict) for v in verdicts] == [
        (Status.VERIFIER_ERROR, None),
        (Status.MALFORMED, False),
    ]


def test_all_jails_are_closed():
    """Those that were opened on the way as well as the first."""
    ends = Ends()
    opened = [waiting_judge(ends)]

    def more():
        opened.append(waiting_judge(ends))
        return opened[-1]

    with CodePool(opened[0], more, num_workers=1) as pool:
        statuses(pool, ["after 3", "after 2", "a", "b"])
    assert len(opened) > 1
    assert all(judge._opened.sandbox.closed for judge in opened)


def outcomes(verdicts: list[Verdict]):
    """All but the seconds; on a loaded machine the clock may end a loop before its CPU seconds do."""
    return [
        (v.status, v.extracted, v.rule)
        + (() if v.extracted == SPINS else (v.strict, v.lenient, v.detail))
        for v in verdicts
    ]


def test_the_same_verdicts_as_one_after_another(real_pool):
    """Six programs that never end among twelve others: the pool says of each what one jail says."""
    programs = [RIGHT, SLEEPS, WRONG, SPINS] * 3 + [RIGHT, "1 / 0\n", "no code"] * 2
    pairs = [(GOLD, program) for program in programs]
    with CodeJudge(open_tier(CodeLimits(timeout_s=1.5))) as judge:
        alone = {program: judge.judge(GOLD, program) for program in set(programs)}
    assert outcomes(real_pool.judge(pairs)) == outcomes([alone[program] for program in programs])


def test_nothing_is_left_of_the_jails():
    """Processes and descriptors are after a batch with slow programs what they were before."""
    process = psutil.Process()
    try:
        open_judge(VerifyParams(code=CodeLimits()), workers=1).close()
    except SandboxUnavailableError as error:
        pytest.skip(str(error))
    children, descriptors = process.children(recursive=True), process.num_fds()
    with open_judge(VerifyParams(code=CodeLimits(timeout_s=1.0)), workers=2) as pool:
        assert statuses(pool, [SLEEPS] * 3 + [RIGHT]) == [Status.TIMEOUT] * 3 + [Status.CORRECT]
        jails = [child for child in process.children() if child not in children]
        assert 2 <= len(jails) <= 2 + MAX_STRAGGLERS
    assert process.children(recursive=True) == children
    assert process.num_fds() == descriptors
