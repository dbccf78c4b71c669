"""The engine and serve.tokenizer determine the renderer of prompts."""

import pytest

from pipeline_lib.engines.chat_model import Message
from pipeline_lib.engines.client.client import ServerChat
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.engines.identity import Endpoint
from pipeline_lib.engines.started_engine import connect
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.serve import ServeParams

URL = "http://127.0.0.1:9/v1"
CHAT = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"


def at(engine: str) -> Endpoint:
    return Endpoint(engine=engine, base_url=URL, model="m", identity="digest", adapter="m@2")


@pytest.fixture
def chat_model_folder(tiny_model, tmp_path):
    """The tiny model with a chat template."""
    folder = tmp_path / "chat_model_folder"
    tokenizer = EmbeddedEngine.load(str(tiny_model), batch_size=1).tokenizer
    tokenizer.chat_template = CHAT
    tokenizer.save_pretrained(folder)
    return folder


def test_prompts_of_a_started_engine_are_rendered_by_the_model_s_template(chat_model_folder):
    """Byte for byte as in process; token ids have no added special tokens."""
    client = connect(at("vllm"), ServeParams(engine="vllm"), model=str(chat_model_folder))
    assert client.chat_format.render([Message.user("ab")]) == "<user>ab<assistant>"
    assert client.encode("ab") == [2, 3]


def test_a_model_without_a_template_has_no_chat_format(tiny_model):
    """Its prompts are plain texts."""
    client = connect(at("embedded"), ServeParams(), model=str(tiny_model))
    assert client.chat_format is None


def test_an_external_server_renders_by_itself(tiny_model):
    """The tokenizer of the run's model does not apply to an external server."""
    serve = ServeParams(engine="url", url=URL)
    client = connect(at("url"), serve, model=str(tiny_model))
    assert client.chat_format == ServerChat()


def test_serve_tokenizer_renders_for_an_external_server(chat_model_folder, tiny_model):
    """With serve.tokenizer prompts are rendered by the client."""
    serve = ServeParams(engine="url", url=URL, tokenizer=str(chat_model_folder))
    client = connect(at("url"), serve, model=str(tiny_model))
    assert client.chat_format.render([Message.user("ab")]) == "<user>ab<assistant>"


def test_a_missing_tokenizer_is_bad_input(tmp_path):
    """The message names it in one line."""
    serve = ServeParams(engine="url", url=URL, tokenizer=str(tmp_path / "absent"))
    with pytest.raises(BadInputError, match="absent"):
        connect(at("url"), serve, model="m")


def test_provenance_is_that_of_the_endpoint(tiny_model):
    """Engine, weights and adapter of each path are the served ones."""
    client = connect(at("vllm"), ServeParams(), model=str(tiny_model))
    assert (client.engine, client.identity, client.adapter) == ("vllm", "digest", "m@2")
