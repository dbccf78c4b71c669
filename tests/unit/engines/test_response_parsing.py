"""Finish reasons and reasoning in the responses of servers."""

import json

import pytest

from pipeline_lib.engines.client.response_parsing import parse_completions


def answer(**choice):
    body = {
        "model": "m",
        "choices": [{"index": 0, "text": "3+5=8", "finish_reason": "stop", **choice}],
        "usage": {"prompt_tokens": 4, "completion_tokens": 6},
    }
    [found] = parse_completions(json.dumps(body).encode(), wanted=1, model="m", latency_s=0.1)
    return found


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"stop_reason": "\n"}, "\n"),  # vLLM
        ({"matched_stop": "\n"}, "\n"),  # SGLang
        ({"stop_reason": 2}, None),  # the id of an end token
        ({"matched_stop": 2}, None),
        ({"stop_reason": None}, None),
        ({}, None),  # OpenAI has no such field
    ],
)
def test_stop_string_and_end_token_are_distinguished(fields, expected):
    """Only a string is a stop string: a search continues after its step and stops at the end token."""
    assert answer(**fields).stopped_by == expected


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_is_kept_apart_from_the_text(name):
    """DeepSeek and SGLang name it reasoning_content, vLLM reasoning."""
    found = answer(text=None, message={"content": "42", name: "6 times 7"})
    assert (found.text, found.reasoning) == ("42", "6 times 7")


def test_a_text_without_reasoning():
    """None, not an empty string: a server that parses none reports no field."""
    assert answer(text=None, message={"content": "42"}).reasoning is None
    assert answer().reasoning is None
