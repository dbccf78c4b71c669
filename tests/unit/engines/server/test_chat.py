"""/v1/chat/completions renders messages by the model's chat template."""

import json

import httpx
import openai
import pytest

from pipeline_lib.engines.chat_model import Decoding, Message, Request
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine

MODEL = "models/policy"
QUESTION = [{"role": "user", "content": "3,4=12"}]


@pytest.fixture(scope="module")
def chat_engine(chat_policy):
    return EmbeddedEngine.load(str(chat_policy), batch_size=8)


def test_one_user_message_is_the_prompt_of_the_loop(chat_client, chat_engine):
    """The template of sampling and training renders it, so a seed draws the same text."""
    prompt = chat_engine.chat_format.render([Message.user("3,4=12")])
    [[expected]] = chat_engine.complete(
        [Request(prompt=prompt, seeds=[6])], Decoding(max_new_tokens=30)
    )
    answer = chat_client.chat.completions.create(
        model=MODEL, messages=QUESTION, seed=6, max_completion_tokens=30, logprobs=True
    )
    [choice] = answer.choices
    assert choice.message.role == "assistant"
    assert choice.message.content == expected.text
    assert choice.finish_reason == expected.finish_reason.value
    assert answer.usage.prompt_tokens == expected.prompt_tokens
    values = [line.logprob for line in choice.logprobs.content]
    assert values == pytest.approx(expected.token_logprobs, abs=1e-5)


def test_turns_and_text_parts_are_rendered(chat_client):
    """A conversation equals its rendered text at /v1/completions; parts are joined by newlines."""
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    answer = chat_client.chat.completions.create(
        model=MODEL,
        temperature=0,
        max_tokens=20,
        messages=[
            {"role": "system", "content": "short"},
            {"role": "user", "content": "1"},
            {"role": "assistant", "content": "2", "tool_calls": None},
            {"role": "user", "content": parts},
            {"role": "assistant"},
            {"role": "user", "content": ""},
        ],
    )
    plain = chat_client.completions.create(
        model=MODEL,
        temperature=0,
        max_tokens=20,
        prompt="<system>short\n<user>1\n<assistant>2\n<user>a\nb\n<assistant>\n<user>\n<assistant>",
    )
    assert answer.choices[0].message.content == plain.choices[0].text


def test_a_question_has_content(chat_client):
    """A reply alone may have none."""
    with pytest.raises(openai.BadRequestError, match="a user message needs content"):
        chat_client.chat.completions.create(model=MODEL, messages=[{"role": "user"}])


LABELS = {"type": "text", "id": "m1", "cache_control": {"type": "ephemeral"}}
"""lm-eval up to 0.4.11 sends a type; clients send back what a response's message has."""


def test_labels_beside_a_message_change_nothing(chat_client):
    """A message, and a part of its content, draw the text that they draw without labels."""
    part = {"type": "text", "text": "3,4=12", "id": "p1"}
    labelled = [{"role": "user", "content": [part], **LABELS, "tool_calls": [], "annotations": []}]
    asked = {"model": MODEL, "seed": 6, "max_tokens": 20}
    same = chat_client.chat.completions.create(messages=labelled, **asked)
    plain = chat_client.chat.completions.create(messages=QUESTION, **asked)
    assert same.choices[0].message.content == plain.choices[0].message.content


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"type": "image"}, "messages.0: type is not supported"),
        ({"tool_calls": [{"id": "c", "type": "function"}]}, "messages.0: tool_calls is not"),
        ({"content": [{"type": "image_url", "image_url": {}}]}, "messages.0.content.0.type"),
        ({"reasoning_content": "so"}, "messages.0.reasoning_content: Extra inputs"),
    ],
)
def test_what_changes_a_message_is_refused(chat_url, change, words):
    """Calls of tools, images and reasoning are one line with their place."""
    body = {"model": MODEL, "messages": [QUESTION[0] | change]}
    answer = httpx.post(f"{chat_url}/chat/completions", json=body)
    assert answer.status_code == 400
    assert words in (message := answer.json()["error"]["message"])
    assert "\n" not in message


def test_without_a_limit_the_context_is_filled(chat_client):
    """Prompt and completion together have the 512 tokens of the context, unless the end is drawn."""
    answer = chat_client.chat.completions.create(model=MODEL, messages=QUESTION, seed=6)
    full = answer.usage.total_tokens == 512
    assert full == (answer.choices[0].finish_reason == "length")


def test_a_stream_adds_up_to_the_response(chat_client):
    """For two paths with a stop string: the role first, then text, then the reason."""
    asked = {"model": MODEL, "messages": QUESTION, "n": 2, "seed": 1, "max_tokens": 30}
    asked |= {"stop": ["\n", "4"]}
    whole = chat_client.chat.completions.create(**asked)
    roles, texts, reasons = [None] * 2, [""] * 2, [None] * 2
    for chunk in chat_client.chat.completions.create(stream=True, **asked):
        [choice] = chunk.choices
        assert choice.delta.role or roles[choice.index]
        roles[choice.index] = choice.delta.role or roles[choice.index]
        texts[choice.index] += choice.delta.content or ""
        reasons[choice.index] = choice.finish_reason
    assert roles == ["assistant"] * 2
    assert texts == [choice.message.content for choice in whole.choices]
    assert reasons == [choice.finish_reason for choice in whole.choices]


def test_the_wire_format_of_a_stream(chat_url):
    """Events end with ``[DONE]``; requested usage is in the last chunk, without a choice."""
    body = {"model": MODEL, "messages": QUESTION, "max_tokens": 5, "seed": 1, "stream": True}
    answer = httpx.post(
        f"{chat_url}/chat/completions", json=body | {"stream_options": {"include_usage": True}}
    )
    assert answer.headers["content-type"].startswith("text/event-stream")
    *events, end, nothing = answer.text.split("\n\n")
    assert (end, nothing) == ("data: [DONE]", "")
    chunks = [json.loads(event.removeprefix("data: ")) for event in events]
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [chunk["usage"] for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] == 5


def test_incomplete_characters_have_no_bytes(chat_client):
    """The bytes of a token are right or null."""
    answer = chat_client.chat.completions.create(
        model=MODEL, messages=QUESTION, seed=3, max_tokens=60, logprobs=True, top_logprobs=1
    )
    lines = answer.choices[0].logprobs.content
    assert any(line.bytes is None for line in lines)
    for line in lines:
        half = "\N{REPLACEMENT CHARACTER}" in line.token
        assert line.bytes == (None if half else list(line.token.encode()))
        assert line.top_logprobs[0].logprob == line.logprob


def test_a_model_without_a_template_is_400(client):
    """The message names the remedy."""
    with pytest.raises(openai.BadRequestError, match="no chat template; send a rendered prompt"):
        client.chat.completions.create(model=MODEL, messages=QUESTION)


def test_an_error_of_the_template_is_400(chat_client):
    """The response has the template's message."""
    with pytest.raises(openai.BadRequestError, match="no developers here"):
        chat_client.chat.completions.create(
            model=MODEL, messages=[{"role": "developer", "content": "x"}]
        )
