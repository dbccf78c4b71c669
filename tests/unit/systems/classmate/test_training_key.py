"""The key of a training, its notes and the record of its peers."""

import pytest

from pipeline_lib.engines.identity import model_identity
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.classmate import ClassmateParams
from pipeline_lib.params.whole import Params
from pipeline_lib.store.files import write_json
from pipeline_lib.systems.classmate.evaluation.policies import check_held_out
from pipeline_lib.systems.classmate.training import ActorTraining, failure_notes
from pipeline_lib.systems.classmate.training_files import read_record, write_record
from tests.unit.systems.classmate.scripted_peer import ScriptedPeer

PEERS = {"small": "digest"}


@pytest.fixture
def training(tmp_path):
    """A training with changes of section classmate."""

    def made(**changes):
        classmate = Params().classmate.model_copy(update=changes)
        return ActorTraining(
            base="base",
            problems=(),
            output=tmp_path / "actor",
            draws=tmp_path / "draws",
            trackers=tmp_path / "trackers",
            params=Params().model_copy(update={"classmate": classmate}),
        )

    return made


@pytest.fixture
def key(training):
    """From changes of section classmate and peers to the key."""
    return lambda peers, **changes: training(**changes).key(peers)


@pytest.mark.parametrize(
    "changes",
    [{"classmate_reward_weight": 0.1}, {"bonus": "blind"}, {"keep": (0.5,)}, {"top_p": 1.0}],
)
def test_the_reward_belongs_to_a_training_with_peers_alone(key, changes):
    """Another weight, bonus, cut or decoding trains again with peers, and not without."""
    assert key(PEERS, **changes) != key(PEERS)
    assert key({}, **changes) == key({})


@pytest.mark.parametrize("peers", [{"small": "other"}, {"large": "digest"}, {}])
def test_peers_belong_to_it(key, peers):
    """By name and identity."""
    assert key(peers) != key(PEERS)


def test_recipes_and_evaluation_do_not(key):
    """Peers are known by what they are, however they were made; the evaluation comes later."""
    assert key(PEERS, made_peers=(), evaluate=None) == key(PEERS)


def test_failures_are_summed_over_the_draws_of_a_training(training):
    """Two draws: 3 + 1 continuations past the deadline, 2 not judged; a peer without failures has no note."""
    peers = [ScriptedPeer(name=name, write=lambda *_: None) for name in ("small", "sound")]
    folder = training().draw_folder({peer.name: peer.identity for peer in peers})
    for step, failures in enumerate(({"late": 3}, {"late": 1, "not judged": 2})):
        draw = {"failures": {"small": failures, "sound": {}}}
        write_json(folder / f"step-{step:06d}.json", draw)
    assert failure_notes(training(), peers) == [
        "classmate small: 6 continuations of the training have no score: late (4), not judged (2)"
    ]


def test_a_finished_training_without_its_draws_has_no_notes(training):
    """Their folder was deleted."""
    assert failure_notes(training(), [ScriptedPeer(name="small", write=lambda *_: None)]) == []


def peer(name):
    return ScriptedPeer(name=name, write=lambda _prefix, _seed: "")


def test_the_record_is_no_part_of_the_model(tmp_path):
    """A policy has the identity that it had before its record was written."""
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    before = model_identity(str(tmp_path))
    assert read_record(str(tmp_path)) is None
    write_record(tmp_path, {"small": "abc"}, ClassmateParams(bonus="blind"))
    assert model_identity(str(tmp_path)) == before
    record = read_record(str(tmp_path))
    assert record is not None
    assert record.identities == {"small": "abc"}
    assert record.is_blind


@pytest.mark.parametrize(("weight", "is_refused"), [(0.5, True), (0.0, False)])
def test_a_peer_of_the_training_is_not_held_out(tmp_path, weight, is_refused):
    """By any name; a training with weight 0 asked the peer, but did not train on it."""
    params = ClassmateParams(classmate_reward_weight=weight)
    write_record(tmp_path, {"small": peer("small").identity}, params)
    trained = {"base": None, "actor": read_record(str(tmp_path))}
    check_held_out([], trained)
    if is_refused:
        with pytest.raises(BadInputError, match="classmate small: actor was trained with it"):
            check_held_out([peer("small")], trained)
    else:
        check_held_out([peer("small")], trained)
