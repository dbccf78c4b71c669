"""A served reward model: what is sent to it, and what is made of its answers."""

import pytest
from starlette.responses import JSONResponse

from pipeline_lib.engines.chat_model import Message
from pipeline_lib.engines.client.reward_model import open_reward_model
from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.params.evaluate import RewardParams
from tests.unit.engines.scripted_server import MODEL, answers, scripted_server

ASKED = [
    (Message.user("2+2?"), Message.assistant("four")),
    (Message.user("2+2?"), Message.assistant("five!")),
]


def classified(*probs):
    """A response of vLLM's route, with scores that no sigmoid bounds."""
    return {
        "id": "classify-1",
        "object": "list",
        "model": MODEL,
        "data": [{"index": 0, "label": "LABEL_0", "probs": probs, "num_classes": len(probs)}],
        "usage": {"prompt_tokens": 9, "total_tokens": 9},
    }


@pytest.fixture
def server():
    with scripted_server() as running:
        yield running


def opened(server, **params):
    return open_reward_model(RewardParams(url=f"http://127.0.0.1:{server.port}/v1", **params))


def test_each_answer_is_scored_as_a_turn(server):
    """In order, by the route beside the version; raw scores are asked for."""

    async def by_length(_request, body):
        return JSONResponse(classified(-float(len(body["messages"][-1]["content"]))))

    server.always = by_length
    assert opened(server).score(ASKED) == [-4.0, -5.0]
    assert {*server.paths} == {"/classify"}
    body = min(server.bodies, key=lambda one: len(one["messages"][-1]["content"]))
    assert body == {
        "model": MODEL,
        "messages": [
            {"role": "user", "content": "2+2?"},
            {"role": "assistant", "content": "four"},
        ],
        "add_generation_prompt": False,
        "use_activation": False,
    }


def test_of_two_classes_the_difference_counts(server):
    """Wrong and right, in this order."""
    server.always = answers(classified(1.5, 4.0))
    assert opened(server).score(ASKED[:1]) == [2.5]


@pytest.mark.parametrize(
    ("content", "status", "complaint"),
    [
        (classified(1, 2, 3), 200, "policy has 3 classes"),
        ({"data": []}, 200, "/classify: no scores"),
        ({"message": "not supported by this model"}, 404, "not supported by this model"),
    ],
)
def test_what_is_no_reward_is_one_line(server, content, status, complaint):
    """Whatever the server answers."""
    server.always = answers(content, status=status)
    with pytest.raises(ReasonloopError, match=r"test_time\.reward") as refused:
        opened(server).score(ASKED)
    assert complaint in str(refused.value)


def test_the_server_and_its_model_are_checked_first(server, monkeypatch):
    """Another name, no server; a key is in no message."""
    with pytest.raises(BadInputError, match=r"test_time\.reward\.model: .* does not serve other"):
        opened(server, model="other")
    monkeypatch.setenv("REWARD_API_KEY", "sk-secret\n?")
    with pytest.raises(ReasonloopError, match=r"test_time\.reward\.url") as refused:
        open_reward_model(RewardParams(url="http://127.0.0.1:9/v1"))
    assert "secret" not in str(refused.value)
