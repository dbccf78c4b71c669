"""Refusals have OpenAI's format, with the status that clients act on."""

import re

import httpx
import openai
import pytest

MODEL = "models/policy"


@pytest.mark.parametrize(
    ("change", "param", "words"),
    [
        ({"temperature": -0.1}, "temperature", "greater than or equal to 0"),
        ({"temperature": 1e-9}, None, "give 0 for greedy"),
        ({"top_p": 0}, "top_p", "greater than 0"),
        ({"n": 0}, "n", "greater than or equal to 1"),
        ({"n": 5000}, "n", "at most 4096"),
        ({"max_tokens": 0}, "max_tokens", "greater than or equal to 1"),
        ({"max_tokens": 512}, "max_tokens", "maximum context length is 512 tokens"),
        ({"seed": 2**63}, "seed", "less than"),
        ({"stop": ""}, "stop", "at least 1 character"),
        ({"stop": 3}, "stop", "valid list"),
        ({"stop": ["a", ""]}, "stop", "at least 1 character"),
        ({"logprobs": 5}, "logprobs", "less than or equal to 1"),
        ({"prompt": ""}, "prompt", "empty"),
        ({"prompt": []}, "prompt", "give a text"),
        ({"prompt": [[]]}, "prompt", "give a text"),
        ({"prompt": ["a", 3]}, "prompt", "give a text"),
        ({"prompt": [True]}, "prompt", "give a text"),
        ({"prompt": [3, 100_000]}, "prompt", "not in [0, "),
        ({"prompt": [-1]}, "prompt", "not in [0, "),
        ({"prompt": {"text": "a"}}, "prompt", "give a text"),
        ({"echo": True}, None, "echo is not supported"),
        ({"best_of": 3}, None, "best_of is not supported"),
        ({"top_k": 5}, None, "top_k is not supported"),
        ({"frequency_penalty": 0.5}, None, "frequency_penalty is not supported"),
        ({"logit_bias": {"5": 1}}, None, "logit_bias is not supported"),
        ({"response_format": {"type": "json_object"}}, None, "response_format is not"),
        ({"tempurature": 0}, "tempurature", "not permitted"),
    ],
)
def test_bad_values_are_400_with_field_and_reason(base_url, change, param, words):
    """The message has the field and the reason, never the value of a prompt."""
    body = {"model": MODEL, "prompt": "a", **change}
    answer = httpx.post(f"{base_url}/completions", json=body)
    error = answer.json()["error"]
    assert answer.status_code == 400
    assert error["type"] == "invalid_request_error"
    assert error["param"] == param
    assert words in error["message"]


def test_fields_without_effect_are_accepted(client):
    """Other servers' fields at neutral values, labels and nulls do not change the response."""
    asked = {"model": MODEL, "prompt": "1,2=3", "temperature": 0}
    plain = client.completions.create(**asked).choices[0].text
    extra = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "add_special_tokens": False}
    same = client.completions.create(
        **asked, user="me", frequency_penalty=0, best_of=1, echo=False, extra_body=extra
    )
    null = client.completions.create(**asked, extra_body={"stop": None, "top_p": None})
    assert same.choices[0].text == null.choices[0].text == plain


def test_an_unknown_model_is_404(client):
    """The message lists the served names."""
    with pytest.raises(openai.NotFoundError, match="models/policy") as caught:
        client.completions.create(model="gpt-5", prompt="a")
    assert caught.value.code == "model_not_found"
    assert caught.value.param == "model"


def test_the_model_may_be_omitted(base_url):
    """The base is the default."""
    answer = httpx.post(f"{base_url}/completions", json={"prompt": "a", "max_tokens": 1})
    assert answer.json()["model"] == MODEL


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/v1/nothing", 404), ("GET", "/v1/completions", 405), ("POST", "/v1/models", 405)],
)
def test_errors_of_unknown_routes_have_the_same_format(base_url, method, path, status):
    """Unknown routes give an error object, too."""
    answer = httpx.request(method, base_url.removesuffix("/v1") + path)
    assert answer.status_code == status
    assert path in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("content", "kind"),
    [(b"{", "application/json"), (b"[1]", "application/json"), (b'{"prompt":"a"}', "text/plain")],
)
def test_a_body_that_is_not_a_json_object_is_400(base_url, content, kind):
    """Other content types are refused: without a CORS preflight, browsers cannot send JSON."""
    answer = httpx.post(f"{base_url}/completions", content=content, headers={"content-type": kind})
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    "body",
    [
        rb'{"prompt": "\ud800"}',
        rb'{"prompt": ["a", "\ud800"]}',
        rb'{"prompt": "a", "stop": ["\ud800"]}',
        rb'{"prompt": "a", "stop": "\ud800"}',
        rb'{"prompt": "a", "model": "\ud800"}',
    ],
)
def test_a_lone_surrogate_is_400(base_url, body):
    """JSON can escape code points that are not text."""
    kind = {"content-type": "application/json"}
    answer = httpx.post(f"{base_url}/completions", content=body, headers=kind)
    assert answer.status_code == 400
    assert re.search("surrogate|unicode", answer.json()["error"]["message"])


def test_a_model_is_listed(client):
    """With its context length, as at vLLM."""
    [model] = client.models.list().data
    assert (model.id, model.max_model_len) == (MODEL, 512)
