"""Trainings with peers on tiny models: weight 0, interruptions, figures in log and progress; keys and records."""

import json
import pathlib
import shutil

import pytest

from pipeline_lib.engines.identity import model_identity
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.classmate import ClassmateParams
from pipeline_lib.params.paths import SampleParams
from pipeline_lib.params.train import Method, TrainParams
from pipeline_lib.params.whole import Params
from pipeline_lib.store import manifests
from pipeline_lib.store.files import read_json_lines, write_json
from pipeline_lib.systems.classmate.draws import read_record, write_record
from pipeline_lib.systems.classmate.evaluation import check_held_out
from pipeline_lib.systems.classmate.training import ActorTraining, failure_notes, train_actor
from pipeline_lib.train.weights.policies import LOG_NAME
from tests.unit.systems.classmate import tiny_training
from tests.unit.systems.classmate.scripted_peer import ScriptedPeer
from tests.unit.systems.classmate.tiny_training import make_model, peers_of, train

ONLINE = [Method.GRPO, pytest.param(Method.RLOO, marks=pytest.mark.slow), Method.PPO]
FIGURES = {
    "base_reward",
    "best_classmate_score",
    "avg_classmate_score",
    "classmate_scores/base",
    "classmate_scores/other",
    "final_reward",
    "lift",
    "failure_rate/base",
    "failure_rate/other",
    "leak_rate",
    "empty_prefix_rate",
    "kept_steps",
    "unique_share",
    "peer_tokens/base",
    "peer_tokens/other",
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Folder with the base policy and another model."""
    folder = tmp_path_factory.mktemp("models")
    make_model(folder / "base", seed=1, steps=400)
    make_model(folder / "other", seed=2, steps=200)
    return folder


@pytest.fixture(scope="module")
def plain_grpo(models: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A policy trained without peers."""
    output = tmp_path_factory.mktemp("plain") / "plain"
    train(models, output, Method.GRPO, [], classmate={})
    return output


def weights(folder: pathlib.Path) -> str:
    return manifests.read_manifest(folder).files["model.safetensors"].sha256


def log_of(folder: pathlib.Path) -> list[dict]:
    return list(read_json_lines(folder / LOG_NAME))


def adder(prefix: str, _seed: int) -> str:
    return {"2+3=5\n": "5+4=9", "3+4=7\n": "7+2=9"}.get(prefix, "no")


@pytest.mark.parametrize(
    ("method", "params"),
    [
        (Method.GRPO, {}),
        pytest.param(Method.RLOO, {}, marks=pytest.mark.slow),
        (Method.PPO, {}),
        (Method.GRPO, {"lora": {"enabled": True}}),
    ],
    ids=["grpo", "rloo", "ppo", "grpo-lora"],
)
def test_weight_zero_trains_as_without_peers(method, params, models, tmp_path):
    """The weights are equal bit for bit, and not those of the base, while two models are asked and logged."""
    train(models, tmp_path / "plain", method, [], classmate={}, **params)
    off = {"classmate_reward_weight": 0}
    train(models, tmp_path / "zero", method, peers_of(models), classmate=off, **params)
    assert weights(tmp_path / "zero") == weights(tmp_path / "plain") != weights(models / "base")
    for line in log_of(tmp_path / "zero"):
        assert line.keys() >= FIGURES
        assert line["final_reward"] == line["base_reward"] == pytest.approx(line["reward"])
    assert any(line["classmate_scores/other"] > 0 for line in log_of(tmp_path / "zero"))


@pytest.mark.parametrize("fusion", ["additive", "convex"])
def test_a_weight_changes_what_is_learned(fusion, models, plain_grpo, tmp_path):
    """GRPO with a peer that continues sums alone: other weights than without peers."""
    peer = ScriptedPeer(name="x", write=adder)
    train(models, tmp_path / "out", Method.GRPO, [peer], classmate={"fusion": fusion})
    assert weights(tmp_path / "out") != weights(plain_grpo)


@pytest.mark.parametrize("params", [{}, {"lora": {"enabled": True}, "micro_batch_size": 1}])
def test_credit_decides_which_tokens_learn(params, models, tmp_path):
    """A peer that continues sums alone, asked at two cuts: other weights by credit to the chain and to the prefix."""
    made = {}
    for credit in ("chain", "prefix"):
        peer = ScriptedPeer(name="x", write=adder)
        classmate = {"credit": credit, "keep": (0.25, 0.5), "cuts": 2}
        train(models, tmp_path / credit, Method.GRPO, [peer], classmate=classmate, **params)
        made[credit] = weights(tmp_path / credit)
    assert made["prefix"] != made["chain"]
    for line in log_of(tmp_path / "prefix"):
        assert line["reward"] == pytest.approx(line["base_reward"])


def test_normalized_logs_the_weighted_sum(models, plain_grpo, tmp_path):
    """``reward`` is TRL's base + w b, which is what ``final_reward`` says; it, too, changes the weights."""
    peer = ScriptedPeer(name="x", write=adder)
    train(models, tmp_path / "out", Method.GRPO, [peer], classmate={"fusion": "normalized"})
    assert weights(tmp_path / "out") != weights(plain_grpo)
    lines = log_of(tmp_path / "out")
    assert [line["reward"] for line in lines] == pytest.approx(
        [line["final_reward"] for line in lines]
    )
    assert any(line["final_reward"] > line["base_reward"] for line in lines)


class Broken(Exception):  # noqa: N818 - in place of a kill
    """Raised by the progress callback."""


def break_at_three(step: int, *_: object) -> None:
    if step == 3:
        raise Broken


INTERRUPTED = {"relative": True, "num_return_sequences": 2}


@pytest.mark.parametrize("method", ONLINE)
def test_a_broken_training_resumes_exactly(method, models, tmp_path):
    """Broken at 3 of 4, resumed from the checkpoint of step 2 with peers of its own: all files are equal, the
    log of the figures included, and so are the files of the draws.

    Figures reach log and progress at every step, under the same names, with the values of the draw's file.
    """
    seen = []
    steps = {"classmate": INTERRUPTED, "steps": 4}

    def see(step, _, metrics):
        seen.append((step, dict(metrics)))

    train(models, tmp_path / "a", method, peers_of(models), progress=see, **steps)
    with pytest.raises(Broken):
        train(models, tmp_path / "b", method, peers_of(models), progress=break_at_three, **steps)
    train(models, tmp_path / "b", method, peers_of(models), **steps)
    digests = [manifests.read_manifest(tmp_path / name).digest for name in "ab"]
    assert digests[0] == digests[1]
    files = [
        {path.name: path.read_text("utf-8") for path in (tmp_path / f"{name}-draws").iterdir()}
        for name in "ab"
    ]
    assert files[0] == files[1]
    assert [step for step, _ in seen] == [1, 2, 3, 4]
    for (_, metrics), line, name in zip(
        seen, log_of(tmp_path / "a"), sorted(files[0]), strict=True
    ):
        figures = json.loads(files[0][name])["figures"]
        assert figures.keys() == FIGURES
        for figure, value in figures.items():
            assert line[figure] == metrics[figure] == pytest.approx(value)


def training_in(folder, models) -> ActorTraining:
    """A training of one step with a plain base, in ``folder``."""
    steps = {"steps": 1, "batch_size": 2, "group_size": 2, "warm_start_steps": 0}
    params = TrainParams(method=Method.GRPO, control=False, threads=1, **steps)
    return ActorTraining(
        base=str(models / "base"),
        problems=tiny_training.PROBLEMS,
        output=folder / "actor",
        draws=folder / "draws",
        trackers=folder / "trackers",
        params=Params(
            sample=SampleParams(max_new_tokens=12),
            classmate=ClassmateParams(keep=(0.5,), train=params),
        ),
    )


def test_a_finished_training_needs_no_draws(models, tmp_path):
    """Their folder is deleted: the same call again trains nothing and ends."""
    training, steps = training_in(tmp_path, models), []
    peer = ScriptedPeer(name="peer", write=adder)
    for _ in range(2):
        train_actor(training, [peer], progress=lambda step, *_: steps.append(step))
        shutil.rmtree(training.draws, ignore_errors=True)
    assert steps == [1]


def test_a_model_of_another_training_is_replaced_by_a_run_alone(models, tmp_path):
    """A command refuses it, and it stays."""
    training = training_in(tmp_path, models)
    shutil.copytree(models / "base", training.output)
    before = weights(training.output)
    with pytest.raises(BadInputError, match="holds the model of another training"):
        train_actor(training, (), progress=lambda *_: None)
    assert weights(training.output) == before
    train_actor(training, (), progress=lambda *_: None, replaces=True)
    assert weights(training.output) != before


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
    [
        {"classmate_reward_weight": 0.1},
        {"bonus": "hashed"},
        {"credit": "prefix"},
        {"keep": (0.5,)},
        {"top_p": 1.0},
    ],
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
    write_record(tmp_path, {"small": "abc"}, ClassmateParams(bonus="hashed"))
    assert model_identity(str(tmp_path)) == before
    record = read_record(str(tmp_path))
    assert record is not None
    assert record.identities == {"small": "abc"}
    assert record.is_control


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
