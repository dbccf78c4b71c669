"""A peer renders by its own template, continues the prefix as text, and counts what it cannot continue."""

import json
import pathlib
import shutil
from dataclasses import dataclass, field, replace

import pytest

from pipeline_lib.engines.chat_model import ChatModel, Request
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.classmate import PeerParams
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.records import FinishReason
from pipeline_lib.systems.classmate.peer import Question
from pipeline_lib.systems.classmate.peer_engine import (
    BATCH_SIZE,
    PeerEngine,
    check_peer,
    opened_peer,
    peer_identity,
)
from tests.unit.engines.scripted_server import scripted_server
from tests.unit.systems.classmate.peer_models import (
    COUNTDOWN,
    DECODING,
    QUESTIONS,
    answers,
    save_peer,
    served_at,
)

GOLDEN = pathlib.Path(__file__).parents[3] / "golden" / "classmate_prompts.txt"


@dataclass
class Recording:
    """An engine that records the prompts of its requests."""

    inner: ChatModel
    prompts: list[str] = field(default_factory=list)

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def complete(self, requests, decoding):
        self.prompts += [request.prompt for request in requests]
        return self.inner.complete(requests, decoding)


def recorded(folder) -> Recording:
    return Recording(EmbeddedEngine.load(str(folder), batch_size=BATCH_SIZE))


def test_the_exact_prompts(compact_peer, chat_peer):
    """The golden texts: the compact prompt or the peer's own chat template, then the prefix as it is.

    The models have different tokenizers.
    """
    shown, vocabularies = [], []
    for name, folder in (("compact", compact_peer), ("chat", chat_peer)):
        engine = recorded(folder)
        vocabularies.append(engine.tokenizer.get_vocab())
        answers = PeerEngine(engine).answer(QUESTIONS, DECODING)
        for prompt, answer in zip(engine.prompts, answers, strict=True):
            shown.append(f"=== {name}\n{prompt}\n")
            assert prompt == engine.tokenizer.decode(engine.tokenizer.encode(prompt))
            assert {len(engine.tokenizer.encode(prompt))} == {one.prompt_tokens for one in answer}
    assert "".join(shown) == GOLDEN.read_text("utf-8")
    assert vocabularies[0] != vocabularies[1]


def test_a_served_peer_gets_the_same_text(chat_peer, tmp_path):
    """A server at a url with a tokenizer is sent the tokens of the text that the embedded engine draws from."""
    engine = recorded(chat_peer)
    PeerEngine(engine).answer(QUESTIONS, DECODING)
    with scripted_server() as server:
        server.always = answers
        peer = check_peer(served_at(server, "a", tokenizer=chat_peer))
        with opened_peer(peer, log_folder=tmp_path) as body:
            server.bodies.clear()
            body.answer(QUESTIONS, DECODING)
    sent = {engine.tokenizer.decode(body["prompt"]) for body in server.bodies}
    assert sent == set(engine.prompts)
    assert set(server.paths) == {"/v1/completions"}


def test_continuations_are_those_of_the_engine(compact_peer):
    """One per seed, in order, without their tokens."""
    engine = EmbeddedEngine.load(str(compact_peer), batch_size=BATCH_SIZE)
    [first, second] = PeerEngine(engine).answer(QUESTIONS, DECODING)
    request = Request(prompt="3,5,3=24\n3+5=8\n", seeds=(5, 6))
    assert [one.text for one in first] == [
        one.text for one in engine.complete([request], DECODING)[0]
    ]
    assert len(second) == 1
    assert {one.token_ids for one in (*first, *second)} == {None}


def test_a_prefix_beyond_the_window_is_a_failure(compact_peer):
    """The context has 512 tokens, and 12 are to be drawn: 500 of the prompt fit, 501 do not. For nothing no engine is asked."""
    engine = EmbeddedEngine.load(str(compact_peer), batch_size=BATCH_SIZE)
    own = len(engine.tokenizer.encode("3,5,3=24\n"))
    long = [
        Question(problem=COUNTDOWN, prefix="~" * (total - own), seeds=(1, 2))
        for total in (500, 501)
    ]
    fits, fails, other = PeerEngine(engine).answer([*long, QUESTIONS[1]], DECODING)
    assert {one.finish_reason for one in (*fits, *other)} <= {
        FinishReason.STOP,
        FinishReason.LENGTH,
    }
    assert [one.finish_reason for one in fails] == [FinishReason.ERROR] * 2
    assert (
        fails[0].error
        == "no room in the context: the prefix leaves 11 tokens, of max_new_tokens=12"
    )
    unasked = recorded(compact_peer)
    assert PeerEngine(unasked).answer(long[1:], DECODING) == [fails]
    assert PeerEngine(unasked).answer([], DECODING) == []
    assert unasked.prompts == []


def test_texts_do_not_depend_on_earlier_calls(compact_peer):
    """A fresh engine, as after a resume, draws for the second call what it drew after the first."""

    def texts(body, questions):
        return [one.text for answer in body.answer(questions, DECODING) for one in answer]

    load = EmbeddedEngine.load
    body = PeerEngine(load(str(compact_peer), batch_size=BATCH_SIZE))
    many = [replace(QUESTIONS[0], seeds=tuple(range(100))), QUESTIONS[1]]
    texts(body, QUESTIONS)
    second = texts(body, many)
    assert texts(PeerEngine(load(str(compact_peer), batch_size=BATCH_SIZE)), many) == second


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "/no/such"}, "classmate a: model /no/such: no such folder"),
        ({"serve": ServeParams(engine="other")}, "classmate a: serve.engine"),
        ({"serve": ServeParams(engine="url")}, "classmate a: serve: url=null"),
        ({"serve": ServeParams(budget_tokens=9)}, "classmate a: serve.budget_tokens and"),
        (
            {"serve": ServeParams(engine="url", url="http://127.0.0.1:9/v1")},
            "continue an opened assistant turn; set serve.tokenizer",
        ),
        (
            {"serve": ServeParams(engine="url", url="http://127.0.0.1:9/v1", tokenizer="/no/such")},
            "classmate a: model /no/such",
        ),
    ],
)
def test_what_cannot_be_a_peer(changes, message):
    """One line, before anything starts; a server that renders conversations is refused."""
    peer = PeerParams(name="a", model="owner/name").model_copy(update=changes)
    with pytest.raises(BadInputError, match=message) as raised:
        check_peer(peer)
    assert "\n" not in str(raised.value)


def test_paths_are_made_absolute(compact_peer, monkeypatch):
    """An actor may have another working folder; a hub id stays."""
    monkeypatch.chdir(compact_peer.parent)
    assert check_peer(PeerParams(name="a", model=compact_peer.name)).model == str(compact_peer)
    assert check_peer(PeerParams(name="a", model="owner/name")).model == "owner/name"


def test_identity_covers_what_the_text_depends_on(compact_peer, tmp_path):
    """Content of the model, engine, options and the tokenizer of a server; not name, address or resources."""
    own = PeerParams(name="a", model=str(compact_peer))
    copy = pathlib.Path(shutil.copytree(compact_peer, tmp_path / "copy"))
    url = ServeParams(engine="url", url="http://h:1/v1", tokenizer=str(compact_peer))
    served = own.model_copy(update={"serve": url, "model": "m"})

    def with_serve(peer, **changes):
        return peer.model_copy(update={"serve": peer.serve.model_copy(update=changes)})

    same = own.model_copy(update={"name": "b", "model": str(copy), "num_cpus": 2.0})
    assert peer_identity(own) == peer_identity(same) == peer_identity(with_serve(own, port=9))
    assert peer_identity(served) == peer_identity(with_serve(served, url="http://h:2/v1"))
    other = save_peer(tmp_path / "other", seed=4)
    different = [
        own,
        own.model_copy(update={"model": str(other)}),
        with_serve(own, engine="vllm"),
        with_serve(own, engine="vllm", options=("--dtype", "float32")),
        served,
        served.model_copy(update={"model": "n"}),
    ]
    assert len({peer_identity(peer) for peer in different}) == len(different)
    config = json.loads((copy / "tokenizer_config.json").read_text("utf-8"))
    (copy / "tokenizer_config.json").write_text(json.dumps(config | {"x": 1}), encoding="utf-8")
    changed = with_serve(served, tokenizer=str(copy))
    assert peer_identity(changed) != peer_identity(served)
    assert peer_identity(same) != peer_identity(own)
