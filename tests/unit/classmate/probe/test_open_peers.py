"""Peers in this process: the prompt that they continue, and prefixes that do not fit."""

from pipeline_lib.classmate.peer import Question
from pipeline_lib.classmate.probe.open_peers import EnginePeer
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.records import FinishReason, Problem
from pipeline_lib.serving.chat_model import Decoding
from pipeline_lib.serving.scripted import ScriptedModel

GOLD = CountdownGold(numbers=(3, 5, 3), target=24)
PROBLEM = Problem(id="p", question="", gold=GOLD, source="test")


def answers(peer, *prefixes):
    questions = [Question(problem=PROBLEM, prefix=one, seeds=(1, 2)) for one in prefixes]
    return peer.answer(questions, Decoding(max_new_tokens=2), timeout_s=1.0)


def test_a_base_model_continues_prompt_and_prefix():
    """The compact prompt, then the prefix; one continuation a seed."""
    engine = ScriptedModel(answer=lambda prompt, seed: f"{prompt}|{seed}")
    [drawn] = answers(EnginePeer(name="p", engine=engine), "3+5=8\n")
    assert [one.text for one in drawn] == ["3,5,3=24\n3+5=8\n|1", "3,5,3=24\n3+5=8\n|2"]


def test_a_prefix_that_leaves_too_little_room_fails():
    """A window of 5 words: 1 of the prompt and 3 of the prefix leave 1 of the 2 that are wanted. The shorter prefix
    is drawn, in its place."""
    engine = ScriptedModel(answer=lambda _prompt, seed: str(seed), context_tokens=5)
    peer = EnginePeer(name="p", engine=engine)
    long, short = answers(peer, "a b c", "a b")
    assert [one.finish_reason for one in long] == [FinishReason.ERROR] * 2
    assert long[0].error == "the prefix leaves 1 tokens of the window for 2 new ones"
    assert [one.text for one in short] == ["1", "2"]


def test_the_identity_of_a_peer_is_its_models():
    """Other weights are another peer; the name is not part of it."""
    first, second = (ScriptedModel(answer=str, identity=name) for name in "xy")
    assert (
        EnginePeer(name="p", engine=first).identity != EnginePeer(name="p", engine=second).identity
    )
    assert (
        EnginePeer(name="p", engine=first).identity == EnginePeer(name="q", engine=first).identity
    )
