"""Outputs, peers, machines, tokenizers and settings that a training refuses."""

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from flows.ray.classmate_peers import check_resources, opened_peers
from pipeline_lib.engines.chat_model import Completion
from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.params.classmate import ClassmateParams, PeerParams
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.params.train import Method, TrainParams
from pipeline_lib.params.whole import ExecutionParams, Params
from pipeline_lib.records import Problem
from pipeline_lib.store import manifests
from pipeline_lib.systems.classmate.peer import NO_ROOM, PeerFailedError
from pipeline_lib.systems.classmate.peer_engine import check_readable
from pipeline_lib.systems.classmate.preflight import check_settings, check_training_output
from pipeline_lib.systems.classmate.processes import check_machine
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
        ({"control": True}, "the control is an arm"),
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


PROCESSES = ExecutionParams(runner="thread")


def test_gpus_and_cpus_that_the_machine_lacks(tmp_path):
    """In the words of Ray's refusal, which counts replicas; nothing is started."""
    for taken, words in (
        ({"num_gpus": 64}, "64 GPUs and 0 CPUs of 1 classmates; it has 0 GPUs"),
        ({"num_cpus": 1e6}, "1e+06 CPUs of 1 classmates; it has 0 GPUs"),
        ({"num_gpus": 0.5, "replicas": 64}, "32 GPUs and 0 CPUs of 64 classmates; it has 0 GPUs"),
    ):
        peer = PeerParams(name="a", model=str(tmp_path), **taken)
        for refused in (
            lambda peer=peer: check_resources([peer], PROCESSES),
            lambda peer=peer: opened_peers([peer], PROCESSES, root=tmp_path).__enter__(),
        ):
            with pytest.raises(BadInputError, match="this machine cannot place") as raised:
                refused()
            assert words in str(raised.value)
    assert not list(tmp_path.iterdir())


def test_an_engine_that_is_not_installed(tmp_path):
    """The peer is named."""
    serve = ServeParams(engine="vllm", environment=str(tmp_path / "none"))
    with pytest.raises(BadInputError, match=r"^classmate a: .*none/bin/python with vllm"):
        check_machine([PeerParams(name="a", model=str(tmp_path), serve=serve)])


def test_what_the_machine_has():
    """A peer without GPUs on a CPU."""
    check_machine([PeerParams(name="a", model="m", num_cpus=1)])


PROBLEM = Problem(
    id="p", question="?", gold=CountdownGold(numbers=(2, 3, 4), target=24), source="t"
)


def save_tokenizer(folder, signs):
    """One token a character; others are unknown."""
    vocabulary = {sign: number for number, sign in enumerate(["<unk>", *signs])}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>").save_pretrained(folder)


def test_characters_that_a_tokenizer_lacks_are_named(tmp_path):
    """The prompt is 2,3,4=24 and a line break."""
    save_tokenizer(tmp_path / "full", "0123456789=,\n")
    save_tokenizer(tmp_path / "lacking", "0123456789=\n")
    check_readable([PeerParams(name="full", model=str(tmp_path / "full"))], [PROBLEM])
    with pytest.raises(BadInputError, match="classmate s: its tokenizer lacks ',' of the"):
        check_readable([PeerParams(name="s", model=str(tmp_path / "lacking"))], [PROBLEM])


def test_a_tokenizer_of_bytes_reads_everything(compact_peer):
    """It has no unknown token."""
    check_readable([PeerParams(name="bytes", model=str(compact_peer))], [PROBLEM])
