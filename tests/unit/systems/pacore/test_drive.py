"""Solutions over HTTP: calls that follow each other, failures, and independence of delays."""

import json

import pytest

from pipeline_lib.engines.client.client import ServerChat
from pipeline_lib.params.pacore import PRESETS, PacoreParams
from pipeline_lib.systems.pacore.drive import solve_all
from tests.unit.engines.scripted_server import MODEL, scripted_server
from tests.unit.systems.pacore.scripted_chat import TURNS, by_seed, question, setting

QUESTION = [{"role": str(turn.role), "content": turn.content} for turn in TURNS]


@pytest.fixture
def server():
    with scripted_server() as running:
        running.models = [{"id": MODEL}]
        running.always = by_seed()
        yield running


def solutions_of(server, params, names=("q",), **serve):
    client = server.client(engine="url", chat_format=ServerChat(), **serve)
    found = {}
    solve_all(
        client,
        [question(name) for name in names],
        setting(params, chat_format=ServerChat()),
        together=4,
        on_solved=lambda solution: found.update({solution.question.id: solution}),
    )
    return [found[name] for name in names]


@pytest.mark.parametrize(("preset", "in_sequence"), [("low", 2), ("medium", 2), ("high", 3)])
def test_calls_and_those_that_follow_each_other(server, preset, in_sequence):
    """5, 17 and 37 requests; a round's prompt exists only once the round before is complete."""
    widths = PRESETS[preset]
    server.always = by_seed(lambda _body: 0.3)
    [solution] = solutions_of(server, PacoreParams(widths=widths))
    assert server.paths == ["/v1/chat/completions"] * (sum(widths) + 1)
    assert len(dict.fromkeys(json.dumps(body["messages"]) for body in server.bodies)) == in_sequence
    assert server.bodies[0]["messages"] == QUESTION
    assert server.most_in_flight > 1
    assert solution.cost.critical_tokens == 4 * in_sequence


def test_reasoning_is_kept_apart_and_is_no_message(server):
    """Messages are contents; the reasoning of the server stays with its completion."""
    [solution] = solutions_of(server, PacoreParams(widths=(4,)))
    first = solution.rounds[0]
    assert [one.reasoning for one in first.completions] == [f"about {m}" for m in first.messages]
    assert "about" not in server.bodies[-1]["messages"][-1]["content"]


def test_delays_change_no_request(server):
    """Replies in another order: the same requests and the same solutions."""
    names = [f"q{number}" for number in range(6)]
    params = PacoreParams(widths=(4, 2))
    plain = solutions_of(server, params, names)
    first = sorted(json.dumps(body, sort_keys=True) for body in server.bodies)
    server.bodies.clear()
    server.always = by_seed(lambda body: (body["seed"] * 7919 % 11) / 50)
    slow = solutions_of(server, params, names)
    assert sorted(json.dumps(body, sort_keys=True) for body in server.bodies) == first
    texts = [[one.text for one in solution.answers] for solution in plain]
    assert [[one.text for one in solution.answers] for solution in slow] == texts


def test_a_slow_question_does_not_delay_the_others(server):
    """One call of the first question is slow: the others are complete before it."""
    order = []
    slow_seed = []

    def delay(body):
        slow_seed[:] = slow_seed or [body["seed"]]
        return 0.5 if body["seed"] == slow_seed[0] else 0.0

    server.always = by_seed(delay)
    client = server.client(engine="url", chat_format=ServerChat())
    solve_all(
        client,
        [question(name) for name in "abcd"],
        setting(PacoreParams(widths=(2,)), chat_format=ServerChat()),
        together=2,
        on_solved=lambda solution: order.append(solution.question.id),
    )
    assert len(order) == 4
    assert order[-1] in "ab"
