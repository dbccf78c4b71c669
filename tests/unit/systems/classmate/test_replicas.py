"""Replicas of a peer: questions are shared out, failures and slow ones cost no answer."""

import threading
from collections.abc import Callable

import pytest

from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.records import Problem
from pipeline_lib.systems.classmate.peer import Answers, PeerFailedError, Question
from pipeline_lib.systems.classmate.replicas import ReplicatedPeer
from tests.unit.systems.classmate.scripted_peer import ScriptedPeer

PATIENCE_S = 60.0
DECODING = Decoding()
PROBLEM = Problem(id="p", question="?", gold=CountdownGold(numbers=(2, 3), target=5), source="test")
QUESTIONS = [
    Question(problem=PROBLEM, prefix=prefix, seeds=(place, place + 10))
    for place, prefix in enumerate("abcde")
]
EXPECTED = [["a0", "a10"], ["b1", "b11"], ["c2", "c12"], ["d3", "d13"], ["e4", "e14"]]


class Replica(ScriptedPeer):
    """A replica that does ``before`` each answer."""

    def __init__(self, before: Callable[[], object] = lambda: None) -> None:
        super().__init__(name="x", write=lambda prefix, seed: f"{prefix}{seed}")
        self.before = before

    def answer(self, questions, decoding, *, timeout_s):
        """The continuations after ``before``."""
        found = super().answer(questions, decoding, timeout_s=timeout_s)
        self.before()
        return found


def dies() -> None:
    raise PeerFailedError("it has died")


def texts(answers: Answers) -> list[list[str]]:
    return [[one.text for one in group] for group in answers]


def ask(*replicas: Replica, timeout_s: float = PATIENCE_S, questions=QUESTIONS) -> Answers:
    return ReplicatedPeer("x", replicas).answer(questions, DECODING, timeout_s=timeout_s)


def test_questions_are_shared_out():
    """Each of two replicas answers only once both are asked: every second question is a share."""
    both = threading.Barrier(2)
    replicas = [Replica(lambda: both.wait(PATIENCE_S)) for _ in range(2)]
    assert texts(ask(*replicas)) == EXPECTED
    shares = {tuple(one.prefix for one in call) for own in replicas for call in own.calls}
    assert shares == {("a", "c", "e"), ("b", "d")}


def test_more_replicas_than_questions():
    """One question: one share."""
    assert texts(ask(*(Replica() for _ in range(3)), questions=QUESTIONS[:1])) == EXPECTED[:1]


def test_a_replica_that_fails_costs_no_answer():
    """The other one takes its share, and it is not asked for that share again."""
    dead, alive = Replica(dies), Replica()
    assert texts(ask(dead, alive)) == EXPECTED
    shares = [tuple(one.prefix for one in call) for call in dead.calls]
    assert len(set(shares)) == len(shares)


def test_all_that_fail_are_data():
    """Each replica has failed on each share: every continuation has the reason."""
    answers = ask(Replica(dies), Replica(dies))
    assert {one.error for group in answers for one in group} == {"it has died"}
    assert [len(group) for group in answers] == [2] * 5


def test_a_slow_replica_is_hedged_and_gets_the_next_call():
    """It is released only after the whole answer is there, so the answer is the other's; then both are asked again."""
    release = threading.Event()
    slow, fast = Replica(lambda: release.wait(PATIENCE_S)), Replica()
    peer = ReplicatedPeer("x", [slow, fast])
    assert texts(peer.answer(QUESTIONS, DECODING, timeout_s=PATIENCE_S)) == EXPECTED
    assert texts(peer.answer(QUESTIONS, DECODING, timeout_s=PATIENCE_S)) == EXPECTED
    release.set()
    both = threading.Barrier(2)
    slow.before = fast.before = lambda: both.wait(PATIENCE_S)
    assert texts(peer.answer(QUESTIONS, DECODING, timeout_s=PATIENCE_S)) == EXPECTED


def test_the_deadline_holds():
    """Both hang: failed continuations, not an exception and not a wait."""
    release = threading.Event()
    hangs = [Replica(lambda: release.wait(PATIENCE_S)) for _ in range(2)]
    answers = ask(*hangs, timeout_s=0.1)
    release.set()
    assert {one.error for group in answers for one in group} == {"no answer within 0.1 s"}


def test_a_bug_is_raised():
    """An exception that is no failure of a peer."""
    with pytest.raises(ZeroDivisionError):
        ask(Replica(lambda: 1 // 0), Replica())
