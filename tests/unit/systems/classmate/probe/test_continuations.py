"""Questions to a peer about a group of chains, and the verdicts on its continuations."""

import pytest

from pipeline_lib.engines.chat_model import Completion, Decoding
from pipeline_lib.errors import ReasonloopError
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.records import Problem
from pipeline_lib.systems.classmate.peer import NO_ROOM
from pipeline_lib.systems.classmate.probe.chains import Chain
from pipeline_lib.systems.classmate.probe.continuations import (
    ChainContinuations,
    Drawing,
    draw_group,
)
from pipeline_lib.verify.dispatch import open_verifier
from tests.unit.systems.classmate.scripted_peer import ScriptedPeer

DRAWING = Drawing(samples=3, decoding=Decoding(max_new_tokens=9), seed=7)


def chain(name, *steps, numbers=(3, 5, 3), target=24):
    gold = CountdownGold(numbers=numbers, target=target)
    return Chain(
        id=name,
        problem=Problem(id=name, question="", gold=gold, source="test"),
        steps=steps,
    )


RIGHT = chain("r", "3+5=8\n", "8*3=24")
OTHER = chain("o", "1+1=2\n", "2+1=3\n", "3+1=4\n", "4+1=5", numbers=(1, 1, 1, 1, 1), target=5)


def drawn(peer, chains, donors=None):
    with open_verifier(VerifyParams()) as verifier:
        return draw_group(peer, chains, donors or {}, DRAWING, verifier)


def rights(found):
    return [[one.right for one in continuations] for continuations in found]


def finish(prefix, _seed):
    """The rest of ``RIGHT`` after its first step; elsewhere an empty text."""
    return "8*3=24" if prefix == "3+5=8\n" else ""


def test_prefix_and_continuation_are_judged_together():
    """Kept 0: an empty text, wrong. Kept 1: 8*3=24 completes it. Kept 2: nothing has to follow."""
    [found] = drawn(ScriptedPeer(name="p", write=finish), [RIGHT])
    assert rights(found.own) == [[False] * 3, [True] * 3, [True] * 3]
    assert found.own[1][0].text == "8*3=24"
    assert found.shuffled == []


def test_all_prefixes_of_a_group_are_one_call():
    """Two chains of 2 and 4 steps: 3 + 5 prefixes in one call, each with three seeds of its own."""
    peer = ScriptedPeer(name="p", write=finish)
    drawn(peer, [RIGHT, OTHER])
    [questions] = peer.calls
    assert [one.prefix for one in questions] == [
        *(RIGHT.prefix(kept) for kept in range(3)),
        *(OTHER.prefix(kept) for kept in range(5)),
    ]
    assert len({seed for one in questions for seed in one.seeds}) == 8 * 3


def test_peers_continue_with_the_same_seeds():
    """The name of a peer is in no seed."""
    first, second = (ScriptedPeer(name=name, write=finish) for name in "xy")
    drawn(first, [RIGHT])
    drawn(second, [RIGHT])
    assert first.calls == second.calls


def test_the_prefixes_of_a_donor():
    """1 of 2 steps is 2 of the donor's 4. They are judged by the chain's own gold, so the donor's whole is wrong;
    its draws from the empty prefix are the chain's own."""
    peer = ScriptedPeer(name="p", write=finish)
    [found] = drawn(peer, [RIGHT], {"r": OTHER})
    [questions] = peer.calls
    assert [one.prefix for one in questions[3:]] == ["1+1=2\n2+1=3\n", OTHER.prefix(4)]
    assert all(one.problem == RIGHT.problem for one in questions)
    assert rights(found.shuffled) == [[False] * 3] * 3
    assert found.shuffled[0] is found.own[0]


def test_a_continuation_that_was_not_drawn():
    """It has a reason and no verdict; the others of its prefix are judged."""
    lost = []

    def write(prefix, seed):
        lost.append(seed)
        return None if len(lost) == 2 else finish(prefix, seed)

    [found] = drawn(ScriptedPeer(name="p", write=write), [RIGHT])
    assert rights(found.own) == [[False, None, False], [True] * 3, [True] * 3]
    assert found.own[0][1].failure == "the script gave no answer"


def test_a_question_that_leaves_no_room_does_not_stop_the_probe():
    """Nothing would come of asking again: its continuations have a reason and no verdict."""

    class ShortPeer(ScriptedPeer):
        def answer(self, questions, *_, **__):
            return [[Completion.failed(f"{NO_ROOM}3 tokens")] * len(one.seeds) for one in questions]

    [found] = drawn(ShortPeer(name="p", write=None), [RIGHT])
    assert {one for own in rights(found.own) for one in own} == {None}
    assert found.own[0][0].failure == f"{NO_ROOM}3 tokens"


def test_a_peer_that_draws_nothing_stops_the_probe():
    """One line with the peer and the first reason."""
    with pytest.raises(ReasonloopError, match=r"classmate p: .*the script gave no answer"):
        drawn(ScriptedPeer(name="p", write=lambda _prefix, _seed: None), [RIGHT])


def test_a_piece_gives_its_continuations_back():
    """JSON values and back."""
    [found] = drawn(ScriptedPeer(name="p", write=finish), [RIGHT], {"r": OTHER})
    assert ChainContinuations.from_piece(found.piece()) == found
