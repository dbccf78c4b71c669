"""The stages on tiny models in this process: every arm is trained and compared, and finished work is reused."""

import pytest

from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.params.classmate import (
    ArmParams,
    ClassmateEvaluateParams,
    ClassmateParams,
    MadePeerParams,
)
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.params.paths import BootstrapParams, HopsParams, PrepareParams, SampleParams
from pipeline_lib.params.train import Method, TrainParams
from pipeline_lib.params.whole import Params
from pipeline_lib.store.files import read_json
from pipeline_lib.study.study import read_study
from pipeline_lib.systems.classmate.peer_engine import PeerEngine, check_peer, peer_identity
from pipeline_lib.systems.classmate.work.evaluation import evaluate, evaluated_peers, is_evaluated
from pipeline_lib.systems.classmate.work.peers import make_peers
from pipeline_lib.systems.classmate.work.train import is_trained, train, train_plain, trained_peers
from pipeline_lib.systems.stage import Run

SIZES = {"hidden_size": 8, "num_layers": 1, "num_heads": 1}
PARAMS = Params(
    sample=SampleParams(max_new_tokens=8),
    evaluate=EvaluateParams(num_paths=2, ks=(1, 2), resamples=100),
    classmate=ClassmateParams(
        max_new_tokens=8,
        cuts=2,
        made_peers=(
            MadePeerParams(name="small", steps=2, **SIZES),
            MadePeerParams(name="other", steps=2, held_out=True, **SIZES),
        ),
        arms=(
            ArmParams(name="plain", bonus="none"),
            ArmParams(name="longer", bonus="none", steps=2),
            ArmParams(name="shuffled", bonus="shuffled", cuts=1),
            ArmParams(name="chain"),
            ArmParams(name="prefix", credit="prefix", lr=1e-2),
        ),
        prepare=PrepareParams(
            dataset="hops",
            train_problems=8,
            test_problems=4,
            bootstrap_problems=16,
            hops=HopsParams(hops=3, entities=20, tables=3),
        ),
        bootstrap=BootstrapParams(steps=4, batch_size=8, validation_fraction=0.0, **SIZES),
        train=TrainParams(
            method=Method.GRPO,
            steps=1,
            batch_size=2,
            group_size=2,
            warm_start_steps=0,
            control=False,
        ),
        evaluate=ClassmateEvaluateParams(paths=1, headline="pass@1", against="chain"),
    ),
)


def opened(peers):
    return [
        PeerEngine(
            EmbeddedEngine.load(peer.model, batch_size=8),
            name=peer.name,
            identity=peer_identity(check_peer(peer)),
        )
        for peer in peers
    ]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """After all stages."""
    made = Run(root=tmp_path_factory.mktemp("arms"), params=PARAMS)
    make_peers(made)
    train(made, opened(trained_peers(made)))
    train_plain(made)
    evaluate(made, opened(evaluated_peers(made)))
    return made


def test_every_arm_is_in_the_report(run):
    """With its steps and token passes; a peer's tokens count, so that arms with peers took more."""
    found = read_study(run.workspace.classmate.reports / "metrics.json")
    taken = found.compute["policies"]
    assert {name: one.get("steps") for name, one in taken.items()} == {
        "base": None,
        "plain": 1,
        "longer": 2,
        "shuffled bonus": 1,
        "chain": 1,
        "prefix": 1,
    }
    assert taken["chain"]["token_passes"] > taken["plain"]["token_passes"]
    assert {one.measure for one in found.points} >= {"pass@1", "maj@2", "held-out peer"}
    one = found.headline
    assert one is None or (one.arm, one.reference, one.measure) == ("prefix", "chain", "pass@1")


def test_draws_are_kept_by_arm(run):
    """With as many prefixes of a path as the arm has cuts."""
    draws = run.workspace.classmate.draws
    files = {path.relative_to(draws).parts[0]: path for path in draws.rglob("step-*.json")}
    cuts = {
        name: {path["cut"] for path in read_json(file)["paths"]} for name, file in files.items()
    }
    assert cuts == {"shuffled": {0}, "chain": {0, 1}, "prefix": {0, 1}}


def test_finished_arms_are_reused_until_one_changes(run):
    """Another rate of one arm is another training of it alone."""
    assert is_trained(run)
    assert is_evaluated(run)
    arms = (*PARAMS.classmate.arms[:-1], ArmParams(name="prefix", credit="prefix", lr=1e-3))
    changed = PARAMS.model_copy(
        update={"classmate": PARAMS.classmate.model_copy(update={"arms": arms})}
    )
    assert not is_trained(run.model_copy(update={"params": changed}))
