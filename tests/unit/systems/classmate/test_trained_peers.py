"""The record of a training's peers in the folder of its policy."""

import pytest

from pipeline_lib.engines.identity import model_identity
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.classmate import ClassmateParams
from pipeline_lib.systems.classmate.evaluation.policies import check_held_out
from pipeline_lib.systems.classmate.trained_peers import read_record, write_record
from tests.unit.systems.classmate.scripted_peer import ScriptedPeer


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
