"""A sandbox leaves no process or file behind, however it or its client ends."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing

import psutil
import pytest

from pipeline_lib.errors import SandboxUnavailableError
from pipeline_lib.kinds.code import CodeGold
from pipeline_lib.params.paths import CodeLimits
from pipeline_lib.verdicts import Status
from pipeline_lib.verify.code import CodeJudge
from pipeline_lib.verify.sandbox.client import JailedInterpreter, JailRefusedError, TestSuite
from pipeline_lib.verify.sandbox.jail.isolation import SCRATCH
from pipeline_lib.verify.sandbox.tiers import open_tier, probe_tiers
from tests.unit.verify.processes import GIVE_UP_S, eventually, gone

REPOSITORY = pathlib.Path(__file__).parents[4]
SQUARE = "def square(x):\n    return x * x\n"
SUITE = TestSuite(entry_point="square", tests="assert square(3) == 9")
SLEEP = "import time\ntime.sleep(3600)\n"
TIMEOUT_S = 900.0
"""Of the tests in which no deadline may pass, however slow the machine."""


@pytest.fixture(params=["namespace", "landlock"])
def jail(request: pytest.FixtureRequest) -> str:
    try:
        JailedInterpreter(request.param, timeout_s=1, memory_bytes=256 << 20).close()
    except JailRefusedError as error:
        pytest.skip(f"tier {request.param}: {error}")
    return request.param


def opened_jail(jail: str) -> JailedInterpreter:
    return JailedInterpreter(jail, timeout_s=TIMEOUT_S, memory_bytes=256 << 20)


@pytest.fixture
def interpreter(jail: str) -> Iterator[JailedInterpreter]:
    with closing(opened_jail(jail)) as opened:
        yield opened


def family(pid: int) -> list[psutil.Process]:
    try:
        outer = psutil.Process(pid)
    except psutil.NoSuchProcess:
        return []
    return [outer, *outer.children(recursive=True)]


def running(
    interpreter: JailedInterpreter, program: str, *, new: int = 2
) -> tuple[threading.Thread, list]:
    """Run ``program`` in a thread, and return once its ``new`` processes exist."""
    reports: list = []
    before = len(family(interpreter.pid))
    thread = threading.Thread(target=lambda: reports.append(interpreter.run(program, SUITE)))
    thread.start()
    assert eventually(lambda: len(family(interpreter.pid)) >= before + new)
    return thread, reports


def test_interpreter_killed_between_runs_is_replaced(interpreter):
    """The next program is judged all the same, by a new interpreter."""
    first = interpreter.pid
    family(first)[-1].kill()
    assert interpreter.run(SQUARE, SUITE).status is Status.CORRECT
    assert interpreter.pid != first


def test_interpreter_killed_twice_in_a_run_is_our_failure(interpreter):
    """One death takes candidate and tests along and is retried; the second is ``verifier_error``."""
    thread, reports = running(interpreter, SLEEP)
    first = interpreter.pid
    victims = family(first)
    psutil.Process(first).kill()
    assert eventually(lambda: gone(victims))
    assert eventually(lambda: interpreter.pid != first and len(family(interpreter.pid)) >= 3)
    psutil.Process(interpreter.pid).kill()
    thread.join(GIVE_UP_S)
    assert [report.status for report in reports] == [Status.VERIFIER_ERROR]
    assert interpreter.run(SQUARE, SUITE).status is Status.CORRECT


def test_examiner_killed_between_runs_is_replaced(interpreter):
    """The interpreter notices that its tests process is gone, and forks another one."""
    interpreter.run(SQUARE, SUITE)
    first, examiner = interpreter.pid, family(interpreter.pid)[-1]
    examiner.kill()
    assert eventually(lambda: gone([examiner]))
    assert interpreter.run(SQUARE, SUITE).status is Status.CORRECT
    assert interpreter.pid == first


def test_examiner_killed_in_a_run_is_our_failure(interpreter):
    """No result, no score; the next program is judged again."""
    interpreter.run(SQUARE, SUITE)
    examiner = family(interpreter.pid)[-1]
    thread, reports = running(interpreter, SLEEP, new=1)
    candidate = family(interpreter.pid)[-1]
    # It shares a CPU until the tests have begun; an examiner that dies before is replaced.
    assert eventually(lambda: set(candidate.cpu_affinity()) == os.sched_getaffinity(0))
    examiner.kill()
    thread.join(GIVE_UP_S)
    assert [report.status for report in reports] == [Status.VERIFIER_ERROR]
    assert interpreter.run(SQUARE, SUITE).status is Status.CORRECT


def test_examiner_serves_again_unless_tests_import(interpreter):
    """Changes of tests to a module are gone in the next run, which has another process."""
    spoil = TestSuite(
        entry_point="square", tests="import math\nmath.pi = 9\nassert square(3) == math.pi"
    )
    look = TestSuite(entry_point="square", tests="assert square(3) == 9 and math.pi < 4")
    idle = family(interpreter.pid)
    examiners = []
    for suite in (SUITE, SUITE, spoil, look, SUITE):
        report = interpreter.run(SQUARE, suite)
        assert report.status is Status.CORRECT, report.detail
        examiners.append([p for p in family(interpreter.pid) if p not in idle])
    assert [len(left) for left in examiners] == [1, 1, 0, 0, 1]
    assert examiners[0] == examiners[1] != examiners[4]


def test_how_a_candidate_ended_is_always_known(interpreter):
    """Twenty that leave without a word: the same detail each time, since verdicts are hashed."""
    reports = [interpreter.run("import os\nos._exit(7)\n", SUITE) for _ in range(20)]
    assert {(r.status, r.detail) for r in reports} == {
        (Status.CRASHED, "the candidate exited with 7")
    }


def test_close_leaves_no_process(interpreter):
    """After ``close`` the whole family is gone."""
    processes = family(interpreter.pid)
    interpreter.close()
    assert gone(processes)


def test_client_killed_in_a_run_leaves_nothing(jail):
    """SIGKILL of the client while a program sleeps for an hour: no process of the jail is left."""
    script = (
        "from pipeline_lib.verify.sandbox.client import JailedInterpreter, TestSuite\n"
        f"z = JailedInterpreter({jail!r}, timeout_s={TIMEOUT_S}, memory_bytes=256 << 20)\n"
        f"print(z.pid, flush=True)\nz.run({SLEEP!r}, TestSuite(entry_point='f', tests='f()'))\n"
    )
    client = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=REPOSITORY
    )
    assert client.stdout is not None
    outer = int(client.stdout.readline())
    assert eventually(lambda: len(family(outer)) >= 3)
    processes = family(outer)
    client.send_signal(signal.SIGKILL)
    client.wait()
    client.stdout.close()
    assert eventually(lambda: gone(processes))


def test_thread_that_opened_it_may_end(jail):
    """The jail belongs to the process: it outlives the thread that opened it."""
    opened: list[JailedInterpreter] = []
    thread = threading.Thread(target=lambda: opened.append(opened_jail(jail)))
    thread.start()
    thread.join()
    with closing(opened[0]) as interpreter:
        assert interpreter.run(SQUARE, SUITE).status is Status.CORRECT


def test_threads_share_one_interpreter(interpreter):
    """Eight threads get eight right answers, each its own."""
    statuses: list[Status] = []

    def judge(number: int) -> None:
        suite = TestSuite(entry_point="f", tests=f"assert f() == {number}")
        statuses.append(interpreter.run(f"def f(): return {number}", suite).status)

    threads = [threading.Thread(target=judge, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [Status.CORRECT] * 8


@pytest.mark.parametrize(
    "num_runs", [60, pytest.param(1000, marks=pytest.mark.slow)], ids=["60", "1000"]
)
def test_many_runs_leave_nothing_behind(jail, num_runs):
    """Descriptors, children, zombies, memory and mounts are after n runs what they were before."""
    with closing(opened_jail(jail)) as interpreter:
        for _ in range(20):
            interpreter.run(SQUARE, SUITE)
        before = footprint(interpreter)
        for _ in range(num_runs):
            assert interpreter.run(SQUARE, SUITE).status is Status.CORRECT
        after = footprint(interpreter)
    memory_before, memory_after = before.pop("memory"), after.pop("memory")
    assert after == before
    assert memory_after < memory_before + (2 << 20)


def footprint(interpreter: JailedInterpreter) -> dict[str, int]:
    examiner = family(interpreter.pid)[-1]
    zygote = examiner.parent()
    return {
        "own_descriptors": psutil.Process().num_fds(),
        "own_children": len(psutil.Process().children(recursive=True)),
        "descriptors": zygote.num_fds(),
        "examiners_descriptors": examiner.num_fds(),
        "mounts": len(pathlib.Path(f"/proc/{zygote.pid}/mounts").read_text().splitlines()),
        "own_scratch": sum(part.mountpoint == SCRATCH for part in psutil.disk_partitions(all=True)),
        "memory": zygote.memory_info().rss,
    }


def test_named_tier_that_cannot_work_is_refused_with_the_reason(monkeypatch):
    """Fail closed: no tier, no run, and the message names the tier and its reason."""
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SandboxUnavailableError, match="docker: there is no docker command"):
        CodeJudge(open_tier(CodeLimits(tier="docker")))


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv"
)
def test_without_the_right_to_make_namespaces_landlock_is_used():
    """As in a container: unshare is refused, the reason says so, and the next tier takes over."""
    script = (
        "from pipeline_lib.params.paths import CodeLimits\n"
        "from pipeline_lib.verify.sandbox.tiers import open_tier, probe_tiers\n"
        "print(open_tier(CodeLimits()).tier)\n"
        "print(next(probe_tiers(CodeLimits()))[1])\n"
    )
    command = ["setpriv", "--bounding-set=-sys_admin", sys.executable, "-c", script]
    answer = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, check=True)
    tier, reason = answer.stdout.splitlines()
    if tier != "landlock":
        pytest.skip("this kernel has no Landlock")
    assert "unshare: Operation not permitted" in reason


def test_judge_uses_the_best_tier_that_passes():
    """``auto`` opens the first available tier of the probe."""
    reasons = dict(probe_tiers(CodeLimits()))
    assert list(reasons) == ["namespace", "landlock", "docker"]
    available = [name for name, reason in reasons.items() if not reason]
    if not available:
        pytest.skip("no sandbox tier works on this machine")
    opened = open_tier(CodeLimits())
    with closing(CodeJudge(opened)) as judge:
        assert opened.tier == available[0]
        gold = CodeGold(entry_point="square", tests="assert square(3) == 9")
        assert judge.judge(gold, SQUARE).status is Status.CORRECT
