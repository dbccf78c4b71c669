"""Finish reasons in the responses of servers."""

import json

import pytest

from pipeline_lib.serving.response_parsing import parse_completions


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
