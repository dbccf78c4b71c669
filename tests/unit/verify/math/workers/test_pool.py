"""The pool: deadlines, deaths and limits, from any thread, and nothing left behind."""

import asyncio
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

from pipeline_lib.errors import ReasonloopError
from pipeline_lib.params.paths import MathLimits
from pipeline_lib.verify.math.workers import pool as pool_module
from pipeline_lib.verify.math.workers.pool import (
    MAX_RESTARTS,
    MAX_STRETCH,
    RECYCLE_AFTER,
    MathPool,
    Question,
)
from pipeline_lib.verify.math.workers.worker_process import Outcome
from pipeline_lib.verify.stragglers import MAX_STRAGGLERS, STRAGGLER_AFTER_S

EQUAL = Question(gold="x^2-1", answer="(x-1)(x+1)")
DIFFERENT = Question(gold="x^2-1", answer="(x-1)(x+2)")


def _equal_when_expanded(power):
    """A question that is decided by expanding a power of seven terms."""
    base = f"(x+y+z+w+a+b+c)^{{{power}}}"
    return Question(
        gold=f"(x+y+z+w+a+b+c)^{{{power + 1}}}", answer=f"{base}(x+y+z)+{base}(w+a+b+c)"
    )


SLOW = _equal_when_expanded(60)  # minutes
REPOSITORY = pathlib.Path(__file__).parents[5]


def _outcomes(pool, questions):
    return [reply.outcome for reply in pool.ask(questions)]


GIVE_UP_S = 120.0
"""Time limit of awaited conditions."""


def _eventually(condition):
    """True if ``condition`` becomes true in time."""
    deadline = time.monotonic() + GIVE_UP_S
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


class _WatchedPool(MathPool):
    """Keeps the questions in the order in which they were settled, and how many processes there were at most."""

    def __init__(self, limits, *, num_workers):
        super().__init__(limits, num_workers=num_workers)
        self.order = []
        self.most_processes = 0

    def _settle(self, worker, outcome):
        self.order.append(self._busy[worker].question)
        super()._settle(worker, outcome)

    def _fresh_or_idle(self):
        worker = super()._fresh_or_idle()
        # Counted where processes are made: what was killed before is gone by the reply to a fork.
        children = psutil.Process(self._forker._process.pid).children()
        self.most_processes = max(self.most_processes, len(children))
        return worker


@pytest.fixture(scope="module")
def pool():
    pool = MathPool(MathLimits(), num_workers=2)
    yield pool
    pool.close()


def test_replies_keep_the_order_of_the_questions(pool):
    """Two workers answer in any order; replies are in the order of the questions."""
    replies = _outcomes(pool, [EQUAL, DIFFERENT] * 10)
    assert replies == [Outcome.EQUAL, Outcome.DIFFERENT] * 10


def test_no_questions_no_replies(pool):
    """An empty batch needs no process."""
    assert pool.ask([]) == []


@pytest.mark.parametrize(
    ("question", "outcome"),
    [
        (Question(gold="x", answer=None), Outcome.EQUAL),
        (Question(gold="\\frac{", answer=None), Outcome.GOLD_UNPARSED),
        (Question(gold="\\frac{", answer="1"), Outcome.GOLD_UNPARSED),
        (Question(gold="x", answer="\\frac{"), Outcome.UNPARSED),
        (Question(gold="x", answer="\ud800\0"), Outcome.UNPARSED),
        (Question(gold="5", answer="5=5"), Outcome.EQUAL),
        (Question(gold="5", answer="1, 5"), Outcome.DIFFERENT),
    ],
)
def test_outcomes(pool, question, outcome):
    """Equal, different and unreadable answers."""
    assert _outcomes(pool, [question]) == [outcome]


def test_a_slow_question_holds_up_only_its_own_process():
    """The soft deadline ends it, the hard one being hours away; the other worker answers the rest
    meanwhile: 20 times some 10 ms of CPU time while the slow one takes 1 s of it."""
    pool = _WatchedPool(MathLimits(soft_timeout_s=1.0, hard_timeout_s=9000.0), num_workers=2)
    try:
        slow, *rest = _outcomes(pool, [SLOW, *[EQUAL] * 20])
    finally:
        pool.close()
    assert slow is Outcome.TIMEOUT
    assert rest == [Outcome.EQUAL] * 20
    assert (pool.order[-1], len(pool.order)) == (SLOW, 21)


def test_a_question_that_ignores_its_alarm_is_killed():
    """With the soft deadline far away only the parent's SIGKILL ends it; a new worker goes on."""
    pool = MathPool(MathLimits(soft_timeout_s=500.0, hard_timeout_s=2.0), num_workers=1)
    try:
        replies = _outcomes(pool, [EQUAL, SLOW, EQUAL])
    finally:
        pool.close()
    assert replies == [Outcome.EQUAL, Outcome.TIMEOUT, Outcome.EQUAL]


def test_one_worker_is_not_held_up_by_a_slow_question():
    """With a single worker the slow first question is settled last: another process took the rest."""
    pool = _WatchedPool(MathLimits(soft_timeout_s=2.0, hard_timeout_s=60.0), num_workers=1)
    try:
        replies = _outcomes(pool, [SLOW, *[EQUAL, DIFFERENT] * 10])
    finally:
        pool.close()
    assert replies == [Outcome.TIMEOUT, *[Outcome.EQUAL, Outcome.DIFFERENT] * 10]
    # Others may pass each other: on a busy machine any of them may run out of patience.
    assert (pool.order[-1], len(pool.order)) == (SLOW, 21)


def test_slow_questions_take_a_bounded_number_of_processes():
    """More slow questions than places: all time out, no more processes than the bound, then few."""
    pool = _WatchedPool(MathLimits(soft_timeout_s=0.6, hard_timeout_s=60.0), num_workers=1)
    try:
        replies = _outcomes(pool, [*[SLOW] * (MAX_STRAGGLERS + 3), EQUAL])
        assert len(pool._idle) == 1
        assert len(psutil.Process(pool._forker._process.pid).children()) <= 1 + MAX_STRAGGLERS
    finally:
        pool.close()
    assert replies == [*[Outcome.TIMEOUT] * (MAX_STRAGGLERS + 3), Outcome.EQUAL]
    assert 1 < pool.most_processes <= 1 + MAX_STRAGGLERS


def test_a_slow_question_that_has_an_answer_gets_it():
    """A straggler that reaches no deadline is judged like any other item."""
    long = _equal_when_expanded(6)  # over a second
    pool = _WatchedPool(MathLimits(soft_timeout_s=60.0, hard_timeout_s=120.0), num_workers=1)
    try:
        replies = pool.ask([long, *[EQUAL] * 5])
    finally:
        pool.close()
    assert [reply.outcome for reply in replies] == [Outcome.EQUAL] * 6
    assert replies[0].seconds > STRAGGLER_AFTER_S
    assert (pool.order[-1], len(pool.order)) == (long, 6)


class _ContinuingPool(MathPool):
    """Lets a stopped worker go on once its deadline has passed by the clock on the wall."""

    continued = False

    def _kill_late(self):
        now_s = time.perf_counter()
        for worker in self._busy:
            if not self.continued and now_s - worker.started_s >= self._limits.hard_timeout_s:
                os.kill(worker.pid, signal.SIGCONT)
                self.continued = True
        super()._kill_late()


def test_waiting_for_a_core_is_not_counted():
    """A worker that is stopped for longer than both deadlines answers all the same once it goes on."""
    pool = _ContinuingPool(MathLimits(soft_timeout_s=0.9, hard_timeout_s=1.0), num_workers=1)
    try:
        pool.ask([EQUAL])
        (worker,) = pool._idle
        os.kill(worker.pid, signal.SIGSTOP)
        replies = _outcomes(pool, [EQUAL])
    finally:
        pool.close()
    assert pool.continued
    assert replies == [Outcome.EQUAL]


def test_a_worker_that_never_goes_on_is_given_up():
    """Stopped for good, it computes nothing; the wall clock ends it, and a new one answers the rest."""
    pool = MathPool(MathLimits(soft_timeout_s=0.4, hard_timeout_s=0.4), num_workers=1)
    try:
        pool.ask([EQUAL])
        (worker,) = pool._idle
        os.kill(worker.pid, signal.SIGSTOP)
        first, second = pool.ask([EQUAL, DIFFERENT])
    finally:
        pool.close()
    assert (first.outcome, second.outcome) == (Outcome.TIMEOUT, Outcome.DIFFERENT)
    assert first.seconds >= MAX_STRETCH * 0.4


def test_memory_is_limited():
    """Expansion runs into the address-space limit, which SymPy hides; it is no verdict of wrong."""
    limits = MathLimits(memory_mb=120, soft_timeout_s=200.0, hard_timeout_s=201.0)
    pool = MathPool(limits, num_workers=1)
    try:
        replies = _outcomes(pool, [SLOW, EQUAL])
    finally:
        pool.close()
    assert replies == [Outcome.MEMORY, Outcome.EQUAL]


def test_a_process_is_replaced_after_its_share(pool):
    """One more question than the share of two workers leaves at least one new process."""
    pool.ask([EQUAL] * 2)
    before = {worker.pid for worker in pool._idle}
    for worker in pool._idle:
        worker.num_judged = RECYCLE_AFTER - 1
    assert _outcomes(pool, [EQUAL] * 4) == [Outcome.EQUAL] * 4
    assert before.isdisjoint(worker.pid for worker in pool._idle)


def test_a_killed_worker_costs_nothing(pool):
    """A worker that was killed while idle is found out, and its question asked again."""
    pool.ask([EQUAL] * 2)
    for worker in pool._idle:
        os.kill(worker.pid, signal.SIGKILL)
    assert _outcomes(pool, [EQUAL, DIFFERENT] * 3) == [Outcome.EQUAL, Outcome.DIFFERENT] * 3


def test_a_killed_forker_costs_nothing(pool):
    """All workers die with the process that forks them; the pool starts over."""
    pool.ask([EQUAL] * 2)
    workers = [psutil.Process(worker.pid) for worker in pool._idle]
    os.kill(pool._forker._process.pid, signal.SIGKILL)
    assert _eventually(lambda: not any(_alive(worker) for worker in workers))
    assert _outcomes(pool, [EQUAL, DIFFERENT]) == [Outcome.EQUAL, Outcome.DIFFERENT]


def test_a_forker_killed_in_the_middle_costs_nothing():
    """Questions in hand when everything dies are asked again."""
    pool = MathPool(MathLimits(soft_timeout_s=2.0, hard_timeout_s=60.0), num_workers=2)
    try:
        pool.ask([EQUAL])
        forker = pool._forker._process.pid

        def kill_in_the_middle():
            if _eventually(lambda: pool._busy):
                os.kill(forker, signal.SIGKILL)

        killer = threading.Thread(target=kill_in_the_middle)
        killer.start()
        replies = _outcomes(pool, [SLOW, *[EQUAL] * 5])
        killer.join()
    finally:
        pool.close()
    assert replies == [Outcome.TIMEOUT, *[Outcome.EQUAL] * 5]


def _alive(process):
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


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


@pytest.mark.parametrize("count", [1, 2, MAX_RESTARTS])
def test_a_forker_killed_while_it_starts_is_started_again(monkeypatch, count):
    """Before its first word: the questions get their answers from the next one."""
    monkeypatch.setattr(pool_module.subprocess, "Popen", DyingForkers(count))
    pool = MathPool(MathLimits(), num_workers=2)
    try:
        replies = pool.ask([Question(gold="1/2", answer="0.5"), Question(gold="2", answer="3")])
    finally:
        pool.close()
    assert [reply.outcome for reply in replies] == [Outcome.EQUAL, Outcome.DIFFERENT]


def test_a_forker_that_never_starts_is_our_error(monkeypatch):
    """One line that says what to look at; what was answered before is kept by the caller."""
    pool = MathPool(MathLimits(), num_workers=1)
    try:
        kept = pool.ask([Question(gold="1/2", answer="0.5")])
        parent = psutil.Process(pool._forker._process.pid)
        # A worker that waits would answer without any forker.
        gone = [*parent.children(), parent]
        for process in gone:
            process.kill()
        psutil.wait_procs(gone[:-1], timeout=30)
        monkeypatch.setattr(pool_module.subprocess, "Popen", DyingForkers(100))
        with pytest.raises(ReasonloopError, match=r"worker_process 0 \{\}` shows"):
            pool.ask([Question(gold="2", answer="3")])
    finally:
        pool.close()
    assert [reply.outcome for reply in kept] == [Outcome.EQUAL]


def test_the_same_from_every_context(pool):
    """Main thread, another thread and an event loop's thread get the same replies."""
    questions = [EQUAL, DIFFERENT, EQUAL]
    expected = _outcomes(pool, questions)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(_outcomes(pool, questions))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found.append(asyncio.run(asyncio.to_thread(_outcomes, pool, questions)))
    assert found == [expected] * 5


def test_nothing_of_the_caller_is_touched():
    """Signal handlers and a running alarm are the caller's; descriptors and children all go."""
    process = psutil.Process()
    calls = []
    previous = signal.signal(signal.SIGALRM, lambda *_: calls.append(1))
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    signal.setitimer(signal.ITIMER_REAL, 3600.0)
    descriptors, children = process.num_fds(), process.children(recursive=True)
    try:
        pool = MathPool(MathLimits(soft_timeout_s=0.5, hard_timeout_s=30.0), num_workers=2)
        pool.ask([EQUAL, SLOW, DIFFERENT])
        pool.close()
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


def test_closing_twice_and_asking_again():
    """A closed pool holds nothing, and starts again when it is asked."""
    pool = MathPool(MathLimits(), num_workers=1)
    pool.close()
    assert _outcomes(pool, [EQUAL]) == [Outcome.EQUAL]
    pool.close()
    pool.close()


_ORPHAN = """
import os, signal, sys, threading, time
from pipeline_lib.params.paths import MathLimits
from pipeline_lib.verify.math.workers.pool import MathPool, Question
pool = MathPool(MathLimits(soft_timeout_s=900, hard_timeout_s=900), num_workers=2)
easy = Question(gold="x^2-1", answer="(x-1)(x+1)")
pool.ask([easy] * 2)
pids = [pool._forker._process.pid, *(worker.pid for worker in pool._idle)]
slow = Question(gold="5", answer="|(x+y+z+w+a+b+c)^{60}|")
threading.Thread(target=pool.ask, args=([slow, slow],), daemon=True).start()
while len(pool._busy) < 2:
    time.sleep(0.01)
print(*pids, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_no_process_outlives_its_parent():
    """The parent is killed outright while two workers hang: all three processes go with it."""
    done = subprocess.run(
        [sys.executable, "-c", _ORPHAN], cwd=REPOSITORY, stdout=subprocess.PIPE, check=False
    )
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 3
    assert _eventually(lambda: not any(_alive_pid(pid) for pid in pids))


def _alive_pid(pid):
    return psutil.pid_exists(pid) and _alive(psutil.Process(pid))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_same_inside_a_ray_worker(pool):
    """A Ray task, which does not run on its process's main thread, gets the same replies."""
    ray = pytest.importorskip("ray")

    @ray.remote
    def asked_remotely():
        remote = MathPool(MathLimits(), num_workers=1)
        try:
            return [str(reply.outcome) for reply in remote.ask([EQUAL, DIFFERENT])]
        finally:
            remote.close()

    environment = {"env_vars": {"PYTHONPATH": str(REPOSITORY)}}
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, runtime_env=environment)
    try:
        found = ray.get(asked_remotely.remote())
    finally:
        ray.shutdown()
    assert found == [str(outcome) for outcome in _outcomes(pool, [EQUAL, DIFFERENT])]
