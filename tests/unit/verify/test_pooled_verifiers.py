"""Verifiers that outlive a batch: found again, never shared, and gone when they should be."""

import os
import pathlib
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.paths import MathLimits, VerifyParams
from pipeline_lib.verdicts import Status
from pipeline_lib.verify.dispatch import Item, close_pooled_verifiers, pooled_verifier

REPOSITORY = pathlib.Path(__file__).parents[3]
PARAMS = VerifyParams()
OTHER_PARAMS = VerifyParams(math=MathLimits(memory_mb=999))
HARD = Item(gold=MathGold(answer="x^2-1"), text="\\boxed{(x-1)(x+1)}")
GIVE_UP_S = 60.0


@pytest.fixture(autouse=True)
def processes():
    """The verifiers' processes, when it is called; each test starts with none, and leaves none."""
    close_pooled_verifiers()
    others = child_processes()
    yield lambda: [process for process in child_processes() if process not in others]
    close_pooled_verifiers()


def judged(params=PARAMS):
    """Judge one item that needs a process; which verifier did it."""
    with pooled_verifier(params) as verifier:
        assert [verdict.status for verdict in verifier.judge([HARD])] == [Status.CORRECT]
        return verifier


def child_processes():
    return psutil.Process().children(recursive=True)


def test_the_next_user_gets_the_same_one_and_its_processes(processes):
    """Two batches, one verifier, the second one starts nothing, and closing leaves no process."""
    first = judged()
    started = processes()
    assert started
    assert judged() is first
    assert processes() == started
    close_pooled_verifiers()
    assert processes() == []


def test_two_at_once_get_two():
    """A verifier in use is never given to another; later both are found again."""
    with pooled_verifier(PARAMS) as first, pooled_verifier(PARAMS) as second:
        assert first is not second
        with ThreadPoolExecutor(2) as threads:
            found = list(threads.map(lambda verifier: verifier.judge([HARD]), (first, second)))
        assert [verdict.status for (verdict,) in found] == [Status.CORRECT] * 2
    with pooled_verifier(PARAMS) as third, pooled_verifier(PARAMS) as fourth:
        assert {id(third), id(fourth)} == {id(first), id(second)}


def test_other_params_close_it(processes):
    """The limits that a verifier was opened with are those of every batch it judges."""
    first = judged()
    started = processes()
    second = judged(OTHER_PARAMS)
    assert second is not first
    assert not set(started) & set(processes())


def test_one_whose_user_failed_is_not_kept(processes):
    """It may have questions in hand, so it is closed, and the next user gets a new one."""
    used = []

    def fail():
        with pooled_verifier(PARAMS) as verifier:
            used.append(verifier)
            verifier.judge([HARD])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert processes() == []
    assert judged() is not used[0]


def test_a_forked_process_has_none():
    """A child would talk to its parent's processes, and each get the other's replies."""
    first = judged()
    pid = os.fork()
    if pid == 0:
        with pooled_verifier(PARAMS) as found:
            os._exit(found is first)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert judged() is first


_PROCESS = """
import os, sys, psutil
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.kinds.code import CodeGold
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.verify.dispatch import Item, pooled_verifier
items = [
    Item(gold=MathGold(answer="x^2-1"), text="\\\\boxed{(x-1)(x+1)}"),
    Item(gold=CodeGold(entry_point="f", tests="assert f() == 1"), text="def f(): return 1"),
]
with pooled_verifier(VerifyParams()) as verifier:
    verifier.judge(items)
print(*(child.pid for child in psutil.Process().children(recursive=True)), flush=True)
if sys.argv[1] == "kill":
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize(("how", "code"), [("end", 0), ("kill", -signal.SIGKILL)])
@pytest.mark.fault("SIGKILL or end of a verifier's process", "cleaned up")
def test_nothing_outlives_the_process(how, code):
    """However it ends, by exit or by a signal: its math processes and its jails are gone with it."""
    done = subprocess.run(
        [sys.executable, "-c", _PROCESS, how],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert done.stderr == ""
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) >= 2
    deadline = time.monotonic() + GIVE_UP_S
    while any(psutil.pid_exists(pid) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.01)
