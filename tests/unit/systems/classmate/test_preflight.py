"""Outputs, peers and settings that a training refuses."""

import pytest

from pipeline_lib.engines.chat_model import Completion
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.classmate import ClassmateParams
from pipeline_lib.params.train import Method, TrainParams
from pipeline_lib.params.whole import Params
from pipeline_lib.store import manifests
from pipeline_lib.systems.classmate.peer import NO_ROOM, PeerFailedError
from pipeline_lib.systems.classmate.preflight import check_settings, check_training_output
from pipeline_lib.systems.classmate.training import check_room
from pipeline_lib.train.weights import policies
from tests.unit.systems.classmate.scripted_peer import ScriptedPeer
from tests.unit.systems.classmate.tiny_training import PROBLEMS


def test_an_output_keeps_what_it_holds(tmp_path):
    """A folder with other files, a file, the base and a peer; a model of an earlier training may be replaced."""
    (tmp_path / "models" / "base").mkdir(parents=True)
    (tmp_path / "thesis.tex").write_text("keep")
    base, peer = tmp_path / "models" / "base", tmp_path / "peer"
    for folder in (base, peer):
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text("{}")
        manifests.seal(folder, kind=policies.KIND, key="made")
    for output in (tmp_path / "models", tmp_path / "thesis.tex", base, peer):
        with pytest.raises(BadInputError, match="--output"):
            check_training_output(output, [str(base), str(peer), "owner/name"])
    check_training_output(peer, [str(base)])
    check_training_output(tmp_path / "new", [str(base)])


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ({"lora": {"enabled": True, "quantize": "4bit"}}, "4bit|CUDA|GPU"),
        ({"control": True}, "the control is classmate-plain"),
    ],
)
def test_settings_of_the_training_are_checked_first(monkeypatch, train, message):
    """Before base and peers are made, on a machine without a GPU."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    given = {"method": Method.GRPO, "warm_start_steps": 0, "control": False} | train
    params = Params(classmate=ClassmateParams(train=TrainParams.model_validate(given)))
    with pytest.raises(BadInputError, match=message):
        check_settings(params)


class Cramped(ScriptedPeer):
    """It has no room for any continuation."""

    def answer(self, questions, decoding, **_):
        reason = (
            f"{NO_ROOM}the prefix leaves 80 tokens, of max_new_tokens={decoding.max_new_tokens}"
        )
        return [[Completion.failed(reason)] for _ in questions]


class Late(ScriptedPeer):
    """It does not answer in time."""

    def answer(self, *_, **__):
        raise PeerFailedError("late")


def test_a_peer_without_room_for_any_continuation_is_refused():
    """The longest question without a prefix; a peer that is late, or fails otherwise, is left to the training."""
    params = ClassmateParams(max_new_tokens=512)
    good = ScriptedPeer(name="good", write=lambda *_: "x")
    silent = ScriptedPeer(name="silent", write=lambda *_: None)
    check_room([good, silent, Late(name="late", write=lambda *_: "x")], PROBLEMS, params)
    assert [(one.prefix, one.problem.id) for one in good.calls[0]] == [("", "24")]
    with pytest.raises(BadInputError, match=r"cramped: .* lower classmate.max_new_tokens"):
        check_room([good, Cramped(name="cramped", write=lambda *_: "x")], PROBLEMS, params)
