"""Who renders a prompt, and where it goes, follows from the engine and from serve.tokenizer."""

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.serving.client import ServerChat
from pipeline_lib.serving.connect import connect
from pipeline_lib.serving.decoding.embedded_engine import EmbeddedEngine
from pipeline_lib.serving.endpoint import Endpoint

URL = "http://127.0.0.1:9/v1"
CHAT = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"


def at(engine: str) -> Endpoint:
    return Endpoint(engine=engine, base_url=URL, model="m", identity="digest", adapter="m@2")


@pytest.fixture
def chatty(tiny_model, tmp_path):
    """The tiny model with a chat template."""
    folder = tmp_path / "chatty"
    tokenizer = EmbeddedEngine.load(str(tiny_model), batch_size=1).tokenizer
    tokenizer.chat_template = CHAT
    tokenizer.save_pretrained(folder)
    return folder


def test_a_started_engine_has_the_model_s_template(chatty):
    """Byte for byte what the tokenizer renders, as in process; its ids have nothing added."""
    client = connect(at("vllm"), ServeParams(engine="vllm"), model=str(chatty))
    assert client.chat_format.render("ab") == "<user>ab<assistant>"
    assert client.encode("ab") == [2, 3]


def test_a_plain_model_has_none(tiny_model):
    """Without a template prompts are plain texts."""
    client = connect(at("embedded"), ServeParams(), model=str(tiny_model))
    assert client.chat_format is None


def test_an_external_server_renders_by_itself(tiny_model):
    """The tokenizer of the run's model does not apply to an external server."""
    serve = ServeParams(engine="url", url=URL)
    client = connect(at("url"), serve, model=str(tiny_model))
    assert client.chat_format == ServerChat()


def test_unless_its_tokenizer_is_named(chatty, tiny_model):
    """With serve.tokenizer prompts are rendered here, also for an external server."""
    serve = ServeParams(engine="url", url=URL, tokenizer=str(chatty))
    client = connect(at("url"), serve, model=str(tiny_model))
    assert client.chat_format.render("ab") == "<user>ab<assistant>"


def test_a_tokenizer_that_is_not_there_is_bad_input(tmp_path):
    """One line names it."""
    serve = ServeParams(engine="url", url=URL, tokenizer=str(tmp_path / "absent"))
    with pytest.raises(BadInputError, match="absent"):
        connect(at("url"), serve, model="m")


def test_provenance_is_the_endpoint_s(tiny_model):
    """Engine, weights and adapter of each path come from what is served."""
    client = connect(at("vllm"), ServeParams(), model=str(tiny_model))
    assert (client.engine, client.identity, client.adapter) == ("vllm", "digest", "m@2")
