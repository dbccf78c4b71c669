"""Draws of an evaluation: asked once, judged, kept in shards on disk, and drawn again where they failed."""

from contextlib import nullcontext
from dataclasses import replace

import pytest

from benchmarks.lib.scripted import ScriptedModel
from pipeline_lib.engines.chat_model import Completion
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.params.classmate import ClassmateParams
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.params.paths import SampleParams, VerifyParams
from pipeline_lib.params.whole import Params
from pipeline_lib.records import Problem
from pipeline_lib.systems.classmate import evaluation_draws as draws
from pipeline_lib.systems.classmate.evaluation_draws import (
    continue_prefixes,
    is_complete,
    scores_of,
)
from pipeline_lib.systems.classmate.peer import NO_ROOM
from pipeline_lib.verify.dispatch import open_verifier
from tests.unit.systems.classmate.scripted_peer import ScriptedPeer
from tests.unit.systems.classmate.tiny_training import PROBLEMS

PROBLEM = Problem(
    id="p",
    question="24 of 3, 3 and 5",
    gold=CountdownGold(numbers=(3, 3, 5), target=24),
    source="x",
)
ASKED = [("p", ""), ("p", "5+3=8\n")]


@pytest.fixture
def ask(tmp_path):
    """Asks a peer about both prefixes, with two continuations each, in one folder."""

    def continued(peer, problem=PROBLEM):
        with open_verifier(VerifyParams()) as verifier:
            return continue_prefixes(
                ASKED,
                {"p": problem},
                [peer],
                tmp_path,
                ClassmateParams(),
                verifier=verifier,
                verify=VerifyParams(),
                seed=7,
                on_progress=lambda _done, _total: None,
            )

    return continued


def test_finished_shards_are_read(ask):
    """The second call asks nothing and gives the same rows."""
    first = ask(ScriptedPeer(name="one", write=lambda _prefix, _seed: "8*3=24"))
    again = ScriptedPeer(name="one", write=lambda _prefix, _seed: "other")
    assert ask(again) == first
    assert again.calls == []


def test_a_corrected_gold_is_judged_anew(ask):
    """The same prefixes of the same id under another gold: 8*3 = 24 is not 25."""
    peer = ScriptedPeer(name="one", write=lambda _prefix, _seed: "8*3=24")
    ask(peer)
    found = ask(peer, replace(PROBLEM, gold=CountdownGold(numbers=(3, 3, 5), target=25)))
    assert scores_of(found)[("one", ASKED[1])] == [False, False]


def test_another_peer_of_the_same_name_is_asked(ask):
    """Its identity is part of the key."""
    ask(ScriptedPeer(name="one", write=lambda _prefix, _seed: "8*3=24"))
    other = ScriptedPeer(name="one", write=lambda _prefix, _seed: "no", identity="other")
    assert not any(row["strict"] for row in ask(other))


def test_what_failed_is_asked_again(ask):
    """A continuation that was not drawn has no score, and its shard is not kept."""
    failed = ask(ScriptedPeer(name="one", write=lambda _prefix, _seed: None))
    assert not is_complete(failed)
    assert set(scores_of(failed)[("one", ASKED[1])]) == {None}
    back = ScriptedPeer(name="one", write=lambda _prefix, _seed: "8*3=24")
    assert scores_of(ask(back))[("one", ASKED[1])] == [True, True]


class ShortPeer(ScriptedPeer):
    """A peer whose context has no room behind any prefix."""

    def answer(self, questions, *_, **__):
        self.calls.append(list(questions))
        return [[Completion.failed(f"{NO_ROOM}3 tokens")] * len(one.seeds) for one in questions]


def test_what_leaves_no_room_is_not_asked_again(ask):
    """It would fail in every call, and the evaluation would never be complete."""
    found = ask(ShortPeer(name="short", write=None))
    assert is_complete(found)
    assert set(scores_of(found)[("short", ASKED[1])]) == {None}
    again = ShortPeer(name="short", write=None)
    assert ask(again) == found
    assert again.calls == []


PARAMS = Params(
    sample=SampleParams(num_paths=2, shard_size=1),
    evaluate=EvaluateParams(ks=(1, 2), num_paths=4),
)


def test_paths_that_were_not_drawn_are_drawn_again(tmp_path, monkeypatch):
    """Of the problem whose requests failed; the shard of the other one is read."""
    asked = []
    fails = True

    def answer(prompt, _seed):
        asked.append(prompt)
        return None if fails and len(asked) == 5 else "2+3=5"

    engine = ScriptedModel(answer=answer)
    monkeypatch.setattr(draws, "started_engine", lambda *_, **__: nullcontext(engine))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")

    def draw():
        with open_verifier(VerifyParams()) as verifier:
            groups = draws.judged_groups(
                str(tmp_path / "model"),
                PROBLEMS,
                tmp_path / "paths",
                PARAMS,
                verifier=verifier,
                log_folder=tmp_path,
                on_progress=lambda *_: None,
            )
        return [len(group.scored()) for group in groups]

    assert (draw(), len(asked)) == ([4, 3], 8)
    fails = False
    assert (draw(), len(asked)) == ([4, 4], 12)
    assert (draw(), len(asked)) == ([4, 4], 12)
