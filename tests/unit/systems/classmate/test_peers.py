"""Peers are asked at once, under one deadline; their failures are data."""

import threading
import time

import pytest

from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.params.classmate import ClassmateParams
from pipeline_lib.records import FinishReason, Problem
from pipeline_lib.systems.classmate.peer import (
    Peers,
    Question,
    decoding_of,
)
from tests.unit.systems.classmate.scripted_peer import ScriptedPeer

PROBLEM = Problem(id="p", question="?", gold=CountdownGold(numbers=(2, 3), target=5), source="test")
QUESTIONS = [
    Question(problem=PROBLEM, prefix="a", seeds=(1, 2)),
    Question(problem=PROBLEM, prefix="b", seeds=(3,)),
]


class BrokenPeer(ScriptedPeer):
    """A peer whose call is ``act``."""

    def __init__(self, name, act):
        super().__init__(name=name, write=lambda prefix, _seed: prefix)
        self.act = act

    def answer(self, questions, _decoding, *, timeout_s):
        return self.act(questions, timeout_s)


def ask(*peers, timeout_s=5.0):
    asking = Peers(peers, ClassmateParams(timeout_s=timeout_s))
    return asking.ask({peer.name: QUESTIONS for peer in peers})()


def texts(answers):
    return [[completion.text for completion in group] for group in answers]


def reasons(answers):
    assert all(one.finish_reason is FinishReason.ERROR for group in answers for one in group)
    return [[completion.error for completion in group] for group in answers]


def test_each_peer_answers_its_questions():
    """One continuation for each of the seeds 1, 2 and 3, in order."""
    peers = [
        ScriptedPeer(name=name, write=lambda prefix, seed, name=name: f"{name}{prefix}{seed}")
        for name in "xy"
    ]
    answers = ask(*peers)
    assert {name: texts(found) for name, found in answers.items()} == {
        "x": [["xa1", "xa2"], ["xb3"]],
        "y": [["ya1", "ya2"], ["yb3"]],
    }


def test_peers_are_asked_at_once():
    """Each of two peers answers only once the other has been asked: one after another would not end."""
    barrier = threading.Barrier(2, timeout=5)

    def meet(prefix, seed):
        if seed == 1:
            barrier.wait()
        return "met"

    answers = ask(*(ScriptedPeer(name=name, write=meet) for name in "xy"))
    assert texts(answers["x"]) == texts(answers["y"]) == [["met", "met"], ["met"]]


def test_a_peer_that_hangs_does_not_hold_up_the_step():
    """With a deadline of 0.2 s, all is over in less than the deadline and 5 s, though the peer hangs."""
    release = threading.Event()
    start = time.perf_counter()
    answers = ask(BrokenPeer("x", lambda *_: release.wait(60) and []), timeout_s=0.2)
    seconds = time.perf_counter() - start
    release.set()
    assert reasons(answers["x"])[1] == ["no answer within the deadline"]
    assert seconds < 5.2


def test_a_call_waits_for_the_one_before_it():
    """While a peer hangs, its next call fails at the deadline instead of being made beside the first."""
    release, asked = threading.Event(), []

    def hang(questions, timeout_s):
        asked.append(len(questions))
        release.wait(60)
        return [[], []]

    peers = Peers([BrokenPeer("x", hang)], ClassmateParams(timeout_s=0.2))
    peers.ask({"x": QUESTIONS})
    answers = peers.ask({"x": QUESTIONS})()
    release.set()
    assert "busy" in reasons(answers["x"])[1][0]
    assert asked == [2]


def test_a_bug_is_raised():
    """An exception that is no failure of a peer is not taken for one."""

    def divide(questions, timeout_s):
        return 1 // 0

    with pytest.raises(ZeroDivisionError):
        ask(BrokenPeer("x", divide))


def test_decoding_follows_the_params():
    """Greedy is temperature 0, whatever the temperature says."""
    greedy = decoding_of(ClassmateParams(do_sample=False, max_new_tokens=9))
    assert (greedy.temperature, greedy.max_new_tokens) == (0.0, 9)
    assert decoding_of(ClassmateParams()).temperature == 0.7
