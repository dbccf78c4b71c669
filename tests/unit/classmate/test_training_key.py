"""The key of a training: what its result depends on, with peers and without."""

import pytest

from pipeline_lib.classmate.training import ActorTraining
from pipeline_lib.params.whole import Params

PEERS = {"small": "digest"}


@pytest.fixture
def key(tmp_path):
    """From changes of section classmate and peers to the key."""

    def made(peers, **changes):
        classmate = Params().classmate.model_copy(update=changes)
        return ActorTraining(
            base="base",
            problems=(),
            output=tmp_path / "actor",
            draws=tmp_path / "draws",
            trackers=tmp_path / "trackers",
            params=Params().model_copy(update={"classmate": classmate}),
        ).key(peers)

    return made


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
