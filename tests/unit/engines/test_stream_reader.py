"""Chunks of a stream to deltas and a completion."""

import json
from types import SimpleNamespace

import pytest

from pipeline_lib.engines.client.response_parsing import (
    BadResponseError,
    BrokenStreamError,
    StreamReader,
)
from pipeline_lib.records import FinishReason

USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}}


def chunk(**fields):
    """An object like those of the openai package."""
    text = json.dumps({"model": "m", **fields})
    return json.loads(text, object_hook=lambda one: SimpleNamespace(**one))


def read(*chunks, model="m"):
    """The reader after these chunks, and the deltas."""
    deltas = []
    reader = StreamReader(model=model, on_delta=lambda *parts: deltas.append(parts))
    for one in chunks:
        reader.read(one)
    return reader, deltas


def delta(finish_reason=None, **content):
    return chunk(choices=[{"delta": content, "finish_reason": finish_reason}])


def test_texts_of_both_routes_and_the_counts():
    """Texts are joined, empty chunks are no delta, and usage is that of the last chunk."""
    reader, deltas = read(
        chunk(choices=[{"text": "a"}]),
        chunk(choices=[{"text": ""}]),
        delta(content="b"),
        delta(finish_reason="length"),
        chunk(choices=[], usage=USAGE),
    )
    drawn = reader.completion(latency_s=1.0)
    assert deltas == [("a", ""), ("b", "")]
    assert (drawn.text, drawn.finish_reason) == ("ab", FinishReason.LENGTH)
    assert (drawn.prompt_tokens, drawn.cached_tokens, drawn.completion_tokens) == (7, 2, 3)
    assert drawn.opens_request


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_is_kept_apart(name):
    """Under both names of servers it is no text, and counts as delivered."""
    reader, deltas = read(delta(**{name: "hm"}), delta(content="4", finish_reason="stop"))
    assert reader.begun
    assert deltas == [("", "hm"), ("4", "")]
    reader.read(chunk(usage=USAGE))
    drawn = reader.completion(latency_s=1.0)
    assert (drawn.text, drawn.reasoning) == ("4", "hm")


def test_another_reason_is_a_failure():
    """A completion that a server filtered has no text and an error."""
    reader, _ = read(delta(content="a", finish_reason="content_filter"), chunk(usage=USAGE))
    drawn = reader.completion(latency_s=1.0)
    assert (drawn.text, drawn.finish_reason) == ("", FinishReason.ERROR)
    assert "content_filter" in drawn.error


def test_a_stream_without_an_end_is_broken():
    """Text without a finish reason is no completion."""
    reader, _ = read(delta(content="a"))
    with pytest.raises(BrokenStreamError, match="ended before the completion"):
        reader.completion(latency_s=1.0)


def test_missing_counts_are_an_error():
    """A server that ignores the request for usage cannot be billed."""
    reader, _ = read(delta(content="a", finish_reason="stop"))
    with pytest.raises(BadResponseError, match="no usage"):
        reader.completion(latency_s=1.0)


@pytest.mark.parametrize("bad", [chunk(model="other"), [], chunk(choices=[{}, {}]), chunk(usage=3)])
def test_unusable_chunks_are_errors(bad):
    """Another model, no object, two choices, or counts that are none."""
    with pytest.raises(BadResponseError):
        read(bad)
