"""A model as a verifier, by the example: its verdicts, its cost, and what is no verdict."""

import pathlib

import pytest
from starlette.responses import JSONResponse

from benchmarks.lib.repository import REPOSITORY
from pipeline_lib.engines.running_engine import serving_engine
from pipeline_lib.kinds.own import own_gold
from pipeline_lib.params.paths import OwnLimits, VerifyParams
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.verify.dispatch import Item, open_verifier
from pipeline_lib.verify.lines import Line, LineSummary
from tests.unit.engines.scripted_server import MODEL, chat, scripted_server
from tests.unit.systems.apr.words.conftest import base  # noqa: F401 - a tiny chat model

EXAMPLE = REPOSITORY / "examples" / "judge.py"


def judge_at(url: str, model: str, folder: pathlib.Path) -> VerifyParams:
    text = EXAMPLE.read_text("utf-8")
    for old, new in (("http://127.0.0.1:8300/v1", url), ("models/smollm2", model)):
        assert old in text
        text = text.replace(f'"{old}"', f'"{new}"')
    (folder / "judge.py").write_text(text, "utf-8")
    return VerifyParams(verifier=f"{folder}/judge.py:verify", own=OwnLimits(timeout_s=60.0))


REPLIES = {"4": "Yes.", "5": "no", "6": "perhaps"}


async def reply(_request, body):
    """By the text that is judged; with a usage of 12 and 4 tokens."""
    text = body["messages"][0]["content"].split("----")[1].strip()
    if text not in REPLIES:
        return JSONResponse({}, 400)
    said = chat(body)
    said["choices"][0]["message"]["content"] = REPLIES[text]
    return JSONResponse(said)


def judged(params, texts):
    with open_verifier(params) as verifier:
        return verifier.judge([Item(gold=own_gold("4"), text=text) for text in texts])


def test_a_model_judges(tmp_path):
    """Yes and no are verdicts; another reply is none, but has its cost; a request that fails has neither."""
    with scripted_server() as server:
        server.always = reply
        params = judge_at(f"http://127.0.0.1:{server.port}/v1", MODEL, tmp_path)
        verdicts = judged(params, ["4", "5", "6", "7"])
    assert [one.strict for one in verdicts] == [True, False, None, None]
    assert [one.judge_tokens for one in verdicts] == [(12, 4)] * 3 + [(0, 0)]
    assert "unreadable reply 'perhaps'" in verdicts[2].detail
    assert "BadRequestError" in verdicts[3].detail
    asked = server.bodies[0]["messages"][0]["content"]
    assert "The right answer is: 4" in asked
    summary = LineSummary()
    for verdict in verdicts:
        summary.add(Line.model_construct(id="one", text="4", label=None), verdict)
    assert summary.judge_tokens == 48


def test_a_server_that_is_gone(tmp_path):
    """Null with its cause."""
    with scripted_server() as server:
        port = server.port
    [verdict] = judged(judge_at(f"http://127.0.0.1:{port}/v1", MODEL, tmp_path), ["4"])
    assert verdict.strict is None
    assert "APIConnectionError" in verdict.detail


@pytest.mark.slow
def test_our_server_judges(base, tmp_path):  # noqa: F811 - the fixture
    """A tiny random model: its reply is unreadable, and its tokens are counted."""
    serve = ServeParams(engine="embedded", port=18860, start_timeout_s=120)
    with serving_engine(serve, model=str(base), log_folder=tmp_path / "logs") as engine:
        params = judge_at(engine.endpoint.base_url, engine.endpoint.model, tmp_path)
        [verdict] = judged(params, ["4"])
    assert verdict.strict is None
    assert "unreadable reply" in verdict.detail
    asked, drawn = verdict.judge_tokens
    assert asked > 100
    assert 1 <= drawn <= 8
