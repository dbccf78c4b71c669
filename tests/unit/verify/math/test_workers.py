"""Math processes: deadlines, deaths and limits, from any thread, and nothing left behind."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import threading

import psutil
import pytest

from pipeline_lib.errors import ReasonloopError
from pipeline_lib.killable import client
from pipeline_lib.killable.client import MAX_RESTARTS, RECYCLE_AFTER, Lost
from pipeline_lib.killable.pool import STRAGGLER_AFTER_S, Pool
from pipeline_lib.params.paths import MathLimits
from pipeline_lib.verify.math.worker_process import Outcome
from pipeline_lib.verify.math.workers import (
    MAX_STRETCH,
    MathWorker,
    Question,
    math_forker,
)
from tests.unit.verify.processes import eventually, gone

EQUAL = Question(gold="x^2-1", answer="(x-1)(x+1)")
DIFFERENT = Question(gold="x^2-1", answer="(x-1)(x+2)")
REPOSITORY = pathlib.Path(__file__).parents[4]


def _equal_when_expanded(power):
    """A question that is decided by expanding a power of seven terms."""
    base = f"(x+y+z+w+a+b+c)^{{{power}}}"
    return Question(
        gold=f"(x+y+z+w+a+b+c)^{{{power + 1}}}", answer=f"{base}(x+y+z)+{base}(w+a+b+c)"
    )


SLOW = _equal_when_expanded(60)  # minutes


@contextlib.contextmanager
def opened(**limits):
    """One worker with these limits; all its processes end with the context."""
    chosen = MathLimits(**limits)
    forker = math_forker(chosen)
    worker = MathWorker(forker, chosen)
    try:
        yield worker
    finally:
        worker.close()
        forker.close()


@pytest.fixture(scope="module")
def worker():
    with opened() as worker:
        yield worker


def _outcomes(worker, questions):
    return [worker.answer(question).outcome for question in questions]


@pytest.mark.parametrize(
    ("question", "outcome"),
    [
        (EQUAL, Outcome.EQUAL),
        (DIFFERENT, Outcome.DIFFERENT),
        (Question(gold="x", answer=None), Outcome.EQUAL),
        (Question(gold="\\frac{", answer=None), Outcome.GOLD_UNPARSED),
        (Question(gold="\\frac{", answer="1"), Outcome.GOLD_UNPARSED),
        (Question(gold="x", answer="\\frac{"), Outcome.UNPARSED),
        (Question(gold="x", answer="\ud800\0"), Outcome.UNPARSED),
        (Question(gold="5", answer="5=5"), Outcome.EQUAL),
        (Question(gold="5", answer="1, 5"), Outcome.DIFFERENT),
    ],
)
def test_outcomes(worker, question, outcome):
    """Equal, different and unreadable answers."""
    assert worker.answer(question).outcome is outcome


@pytest.mark.parametrize(
    ("limits", "outcome"),
    [
        ({"soft_timeout_s": 0.6, "hard_timeout_s": 9000.0}, Outcome.TIMEOUT),
        # With the soft deadline far away only the parent's SIGKILL ends it.
        ({"soft_timeout_s": 500.0, "hard_timeout_s": 1.0}, Outcome.TIMEOUT),
        # Expansion runs into the address-space limit, which SymPy hides; it is no verdict of wrong.
        ({"memory_mb": 120, "soft_timeout_s": 200.0, "hard_timeout_s": 201.0}, Outcome.MEMORY),
    ],
)
def test_a_limit_ends_a_question_and_a_new_process_goes_on(limits, outcome):
    """By the alarm of the process, by the parent, or by the memory limit."""
    with opened(**limits) as worker:
        assert _outcomes(worker, [EQUAL, SLOW, EQUAL]) == [Outcome.EQUAL, outcome, Outcome.EQUAL]


def test_a_slow_question_that_has_an_answer_gets_it():
    """A straggler that reaches no deadline is judged like any other item, after the others."""
    long = _equal_when_expanded(6)  # over a second
    limits = MathLimits(soft_timeout_s=60.0, hard_timeout_s=120.0)
    forker = math_forker(limits)
    with Pool(lambda: MathWorker(forker, limits), num_workers=1) as pool:
        slow, *others = pool.judge([long, *[EQUAL] * 5])
    forker.close()
    assert [reply.outcome for reply in (slow, *others)] == [Outcome.EQUAL] * 6
    assert slow.seconds > STRAGGLER_AFTER_S


@pytest.mark.parametrize("goes_on", [True, False])
def test_waiting_for_a_core_is_not_counted(goes_on):
    """Stopped for longer than both deadlines it answers all the same; for good, it is given up."""
    with opened(soft_timeout_s=0.4, hard_timeout_s=0.4) as worker:
        worker.answer(EQUAL)
        os.kill(worker.process.pid, signal.SIGSTOP)
        if goes_on:
            threading.Timer(0.8, os.kill, (worker.process.pid, signal.SIGCONT)).start()
        reply = worker.answer(EQUAL)
        assert reply.outcome is (Outcome.EQUAL if goes_on else Outcome.TIMEOUT)
        assert goes_on or reply.seconds >= MAX_STRETCH * 0.4
        assert worker.answer(DIFFERENT).outcome is Outcome.DIFFERENT


def test_a_process_is_replaced_after_its_share(worker):
    """The last question of its share ends it."""
    worker.answer(EQUAL)
    before, worker.process.num_answered = worker.process.pid, RECYCLE_AFTER - 1
    assert _outcomes(worker, [EQUAL, EQUAL]) == [Outcome.EQUAL] * 2
    assert worker.process.pid != before


@pytest.mark.parametrize("name", ["process", "forker"])
def test_a_killed_process_costs_nothing(worker, name):
    """It is found out, and its question asked again; processes die with the one that forks them."""
    worker.answer(EQUAL)
    process = psutil.Process(worker.process.pid)
    os.kill(process.pid if name == "process" else process.ppid(), signal.SIGKILL)
    assert eventually(lambda: gone([process]))
    assert _outcomes(worker, [EQUAL, DIFFERENT]) == [Outcome.EQUAL, Outcome.DIFFERENT]


def test_a_forker_killed_in_the_middle_costs_nothing():
    """A question in hand when everything dies is asked again."""
    with opened(soft_timeout_s=2.0, hard_timeout_s=60.0) as worker:
        worker.answer(EQUAL)
        forker = psutil.Process(worker.process.pid).ppid()
        threading.Timer(0.5, os.kill, (forker, signal.SIGKILL)).start()
        assert _outcomes(worker, [SLOW, EQUAL]) == [Outcome.TIMEOUT, Outcome.EQUAL]
        assert psutil.Process(worker.process.pid).ppid() != forker


def test_a_process_that_dies_twice_is_our_failure(monkeypatch):
    """Of a question that kills each process nothing is known."""
    with opened() as worker:
        worker.answer(EQUAL)
        monkeypatch.setattr(worker.process, "_reply", lambda *_: Lost.CRASHED)
        assert worker.answer(EQUAL).outcome is Outcome.CRASHED


class DyingForkers:
    """A fake `subprocess.Popen` of the forker: the first ``count`` processes are killed at once."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.real = subprocess.Popen

    def __call__(self, *arguments, **options):
        process = self.real(*arguments, **options)
        if self.left:
            self.left -= 1
            process.kill()
        return process


@pytest.mark.parametrize("count", [1, MAX_RESTARTS])
def test_a_forker_killed_while_it_starts_is_started_again(monkeypatch, count):
    """Before its first word: the questions get their answers from the next one."""
    monkeypatch.setattr(client.subprocess, "Popen", DyingForkers(count))
    with opened() as worker:
        assert _outcomes(worker, [EQUAL, DIFFERENT]) == [Outcome.EQUAL, Outcome.DIFFERENT]


def test_a_forker_that_never_starts_is_our_error(monkeypatch):
    """One line that says what to look at."""
    monkeypatch.setattr(client.subprocess, "Popen", DyingForkers(100))
    with (
        opened() as worker,
        pytest.raises(ReasonloopError, match=r"worker_process 0 '\{.*\}'` shows"),
    ):
        worker.answer(EQUAL)


def test_nothing_of_the_caller_is_touched():
    """Signal handlers and a running alarm are the caller's; descriptors and children all go."""
    process = psutil.Process()
    calls = []
    previous = signal.signal(signal.SIGALRM, lambda *_: calls.append(1))
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    signal.setitimer(signal.ITIMER_REAL, 3600.0)
    descriptors, children = process.num_fds(), process.children(recursive=True)
    try:
        with opened(soft_timeout_s=0.5, hard_timeout_s=30.0) as worker:
            _outcomes(worker, [EQUAL, SLOW, DIFFERENT])
            worker.close()
        remaining, _ = signal.getitimer(signal.ITIMER_REAL)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        now = {number: signal.getsignal(number) for number in signal.valid_signals()}
        signal.signal(signal.SIGALRM, previous)
    assert now == handlers
    assert remaining > 0
    assert calls == []
    assert process.num_fds() == descriptors
    assert process.children(recursive=True) == children


def test_closing_twice_and_asking_again(worker):
    """A closed worker holds no process, and gets another when it is asked."""
    worker.close()
    worker.close()
    assert worker.answer(EQUAL).outcome is Outcome.EQUAL


_ORPHAN = """
import os, signal, threading, time
from pipeline_lib.params.paths import MathLimits
from pipeline_lib.verify.math.workers import MathWorker, Question, math_forker
limits = MathLimits(soft_timeout_s=900, hard_timeout_s=900)
forker = math_forker(limits)
workers = [MathWorker(forker, limits) for _ in range(2)]
for worker in workers:
    worker.answer(Question(gold="x^2-1", answer="(x-1)(x+1)"))
print(forker._process.pid, *(worker.process.pid for worker in workers), flush=True)
slow = Question(gold="5", answer="|(x+y+z+w+a+b+c)^{60}|")
for worker in workers:
    threading.Thread(target=worker.answer, args=(slow,), daemon=True).start()
time.sleep(0.5)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_no_process_outlives_its_parent():
    """The parent is killed outright while two workers hang: all three processes go with it."""
    done = subprocess.run(
        [sys.executable, "-c", _ORPHAN], cwd=REPOSITORY, stdout=subprocess.PIPE, check=False
    )
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 3
    assert eventually(lambda: gone([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]))
