"""`rollout_fun` at real servers: a model that spawns and joins, and scripted answers."""

from contextlib import contextmanager

import pytest
from starlette.responses import JSONResponse
from transformers import AutoTokenizer

from pipeline_lib.errors import BadInputError
from pipeline_lib.systems.apr.rollouts import rollout_fun
from tests.unit.engines.scripted_server import MODEL, answers, scripted_server
from tests.unit.engines.served_model import served
from tests.unit.systems.apr.learned_model import SOLVED, UNSOLVED, WINDOW, outputs_of, trace

TRACES = trace(*SOLVED), trace(*UNSOLVED)
PROMPTS = [found.sequences[0].prefix for found in TRACES]


@pytest.fixture(scope="module")
def url(thread_model):
    with served(thread_model) as address:
        yield address


@contextmanager
def scripted(outputs, *, finish="stop"):
    """The url of a server that answers each prompt by a table; prompts that are not in it are refused."""

    async def reply(_request, body):
        text = ({"1": "."} | outputs).get(body["prompt"])
        if text is None:
            return JSONResponse({"error": {"message": "no such prompt"}}, 400)
        choice = {"index": 0, "text": text, "finish_reason": finish}
        usage = {"prompt_tokens": 9, "completion_tokens": 1}
        return JSONResponse({"model": MODEL, "choices": [choice], "usage": usage})

    with scripted_server() as server:
        server.models = [{"id": MODEL, "owned_by": "me"}]
        server.always = reply
        yield f"http://127.0.0.1:{server.port}/v1"


def test_rollouts_are_those_of_the_traces(url, thread_model):
    """A model that learned two traces draws their sequences, claims the first path, and solves one."""
    tokenizer = AutoTokenizer.from_pretrained(thread_model)
    options = {"temperature": 0.0, "tokenizer": tokenizer, "window": WINDOW}
    rollouts = rollout_fun(url, PROMPTS, "", **options)
    for rollout, found in zip(rollouts, TRACES, strict=True):
        assert set(rollout) == {"seqs", "is_correct", "claim"}
        shown = [
            (one["prefix"], one["output"], one["role"], one["round"], one["child"])
            for one in rollout["seqs"]
        ]
        assert shown == [
            (one.prefix, one.output, one.role, one.round, one.child) for one in found.sequences
        ]
        for one in rollout["seqs"]:
            ids = [*tokenizer.encode(one["output"]), tokenizer.eos_token_id]
            assert one["output_ids"] == ids
            assert len(one["logprobs"]) == len(ids)
    assert [one["is_correct"] for one in rollouts] == [True, False]
    assert rollouts[0]["claim"].startswith("Exploring Operation: 9-4=5")
    assert rollouts[1]["claim"] is None


def test_the_start_token_is_on_the_wire_alone():
    """Each prompt is sent behind it; no prefix has it, and the condition is the parent's alone."""
    condition = "Sub Call Budget: 3 "
    own = outputs_of(TRACES[0])
    outputs = {
        f"<s>{'' if prefix not in _parents() else condition}{prefix}": text
        for prefix, text in own.items()
    }
    with scripted(outputs) as url:
        [rollout] = rollout_fun(url, PROMPTS[:1], "<s>", condition_prefix=condition)
        [bare] = rollout_fun(url, PROMPTS[:1], "<s>", condition_prefix=condition.rstrip())
    assert rollout == bare
    assert rollout["is_correct"]
    assert [one["prefix"] for one in rollout["seqs"] if one["role"] == "child"] == [
        one.prefix for one in TRACES[0].sequences if one.role == "child"
    ]
    assert all("<s>" not in one["prefix"] for one in rollout["seqs"])
    assert rollout["seqs"][0]["prefix"] == condition + PROMPTS[0]


def _parents():
    return {one.prefix for one in TRACES[0].sequences if one.role == "parent"}


def test_failed_rollouts_keep_their_place():
    """The server refuses the second of three prompts: its entry has an error, and no sequences."""
    with scripted(outputs_of(TRACES[0])) as url:
        first, failed, last = rollout_fun(url, [PROMPTS[0], PROMPTS[1], PROMPTS[0]], "")
    assert failed == {
        "seqs": [],
        "is_correct": False,
        "error": "status 400: no such prompt",
    }
    assert first == last
    assert first["is_correct"]


def test_a_failed_child_leaves_its_reason():
    """The server refuses the first child: the rollout goes on without its result, and has the reason."""
    refused = next(one.prefix for one in TRACES[1].sequences if one.role == "child")
    texts = {prompt: text for prompt, text in outputs_of(TRACES[1]).items() if prompt != refused}
    with scripted(texts) as url:
        [rollout] = rollout_fun(url, PROMPTS[1:], "")
    assert "error" not in rollout
    assert rollout["child_error"] == "status 400: no such prompt"


def test_a_summary_that_is_cut_before_its_first_line_is_no_claim():
    """Of a serial thread behind its goal; the limit of tokens ended it."""
    prompt = "Moving to Node #0\nCurrent State: 20:[3, 5, 12], Operations: []"
    text = "\n20,20 equal: Goal Reached\nExploring Operation: 3+5"
    with scripted({prompt: text}, finish="length") as url:
        [rollout] = rollout_fun(url, [prompt], "")
    assert rollout["claim"] is None
    assert not rollout["is_correct"]


def test_equal_prompts_are_drawn_apart(url):
    """At temperature 1 two rollouts of one prompt differ, and those of the next call are the same."""
    twins = rollout_fun(url, PROMPTS[:1] * 6, "", temperature=2.0, max_tokens=60)
    assert len({one["seqs"][0]["output"] for one in twins}) > 1
    again = rollout_fun(url, PROMPTS[:1] * 6, "", temperature=2.0, max_tokens=60)
    assert [one["seqs"][0]["output"] for one in twins] == [
        one["seqs"][0]["output"] for one in again
    ]


@pytest.mark.parametrize(
    ("server", "prompts", "message"),
    [
        ("http://[bad/v1", PROMPTS[:1], "server_url or max_workers: Invalid IPv6 URL"),
        (
            "http://127.0.0.1:1/v1",
            [PROMPTS[0], "hello"],
            r"prefix_list\[1\]: 'hello' is no prompt of Countdown",
        ),
    ],
)
def test_bad_arguments_are_refused(server, prompts, message):
    """A malformed url, and another prompt, before the server is asked anything."""
    with pytest.raises(BadInputError, match=message):
        rollout_fun(server, prompts, "")


def test_a_window_that_a_prompt_fills_is_refused(url, thread_model):
    """The message has the window and the tokens of the prompt, and nothing is drawn."""
    tokenizer = AutoTokenizer.from_pretrained(thread_model)
    size = len(tokenizer.encode(PROMPTS[0]))
    with pytest.raises(BadInputError, match=rf"window={size}: the prompt .* has {size} tokens"):
        rollout_fun(url, PROMPTS[:1], "", tokenizer=tokenizer, window=size)


def test_a_server_of_several_models_is_refused():
    """Its rollouts would be of no model in particular."""
    with scripted_server() as server:
        server.models = [{"id": name, "owned_by": "me"} for name in "ab"]
        server.always = answers({})
        with pytest.raises(BadInputError, match="does not serve exactly one model; it serves a, b"):
            rollout_fun(f"http://127.0.0.1:{server.port}/v1", PROMPTS[:1], "")
