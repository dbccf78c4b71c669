"""`rollout_fun` at real servers; token counts of a rollout by hand; the replay of traces."""

from contextlib import contextmanager

import pytest
from starlette.responses import JSONResponse
from transformers import AutoTokenizer

from benchmarks.apr_replay import Draw, Speeds, read_chains
from benchmarks.lib.scripted_threads import BracketGrammar
from pipeline_lib.errors import BadInputError
from pipeline_lib.sampling.compute_cost import Cost
from pipeline_lib.store import shards
from pipeline_lib.systems.apr.countdown.tokens import count_tokens
from pipeline_lib.systems.apr.data_folder import traces_folder
from pipeline_lib.systems.apr.rollouts import rollout_fun
from tests.unit.engines.scripted_server import MODEL, answers, scripted_server
from tests.unit.engines.served_model import served
from tests.unit.systems.apr.learned_model import SOLVED, UNSOLVED, WINDOW, outputs_of, trace
from tests.unit.systems.apr.word_draws import WordDraws, roll

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


def draws(*tokens):
    return [Draw(prompt="p", tokens=count) for count in tokens]


def test_the_seconds_of_a_chain():
    """A parent of 10 tokens; children of 2, 5 and 9: three at once, then two, then one; a parent of 4."""
    speeds = Speeds(token_s={1: 1.0, 2: 1.5, 3: 2.0}, call_s={1: 10.0, 2: 15.0, 3: 20.0})
    children = 20 + 2 * 2.0 + 3 * 1.5 + 4 * 1.0
    chain = [draws(10), draws(9, 2, 5), draws(4)]
    assert speeds.predict(chain) == pytest.approx(10 + 10 + children + 10 + 4)


def test_a_chain_has_the_segments_of_the_parent_and_their_children(small_data):
    """All sequences once, in the parent's order; a serial trace is one call."""
    parallel, serial = (
        read_chains(small_data, kind, window=2000) for kind in ("parallel", "serial")
    )
    assert {len(chain) for chain in serial.values()} == {1}
    rows = shards.read_table(traces_folder(small_data, "parallel"))
    assert sum(len(step) for chain in parallel.values() for step in chain) == len(rows)
    for chain in parallel.values():
        assert [len(step) for step in chain[::2]] == [1] * len(chain[::2])
        assert len(chain) % 2 == 1
    joined = [row for row in rows if row["role"] == "parent" and row["round"] == 1]
    last = parallel[joined[0]["problem_id"]][2][0]
    assert last.prompt.endswith(joined[0]["prefix"])
    assert last.tokens == 1 + count_tokens(joined[0]["output"], num_numbers=3)


def test_traces_beyond_the_window_are_left_out(small_data):
    """Whole problems, not sequences."""
    whole, cut = (read_chains(small_data, "serial", window=window) for window in (2000, 150))
    assert cut == {name: chain for name, chain in whole.items() if name in cut}
    assert 0 < len(cut) < len(whole)


TEXTS = {
    "parent 0": " x [ 0.0 0.1 ]",
    "child 0.0": " a b c 7!",
    "child 0.1": " none",
    "parent 0 x ( 7! - )": " d e",
}


def test_the_four_counts_of_one_round():
    """Parent: 5 words + end = 6, then 2 + end = 3. Children: 4 + end = 5, and 1 + end = 2.

    - drawn 6 + 5 + 2 + 3 = 16; critical 6 + max(5, 2) + 3 = 14
    - total: parent 2 + 6 = 8; children 2 + 5 = 7 and 2 + 2 = 4; the second segment has a prompt of 7 words
      (parent 0 x ( 7! - )), of which parent 0 x is counted already: 7 + 3 - 3 = 7. In all 26.
    - longest: the second segment with its prompt, 7 + 3 = 10
    """
    rollout = roll(WordDraws(texts=TEXTS))
    assert rollout.cost == Cost(
        calls=4,
        prompt_tokens=2 + 2 + 2 + 7,
        completion_tokens=16,
        critical_tokens=14,
        longest_tokens=6,
    )
    assert (rollout.total_tokens, rollout.longest_tokens) == (26, 10)


def test_the_start_token_counts_with_each_prompt():
    """<s> precedes the parent's and both children's prompts, and is shared by the second segment: 26 + 3."""
    texts = {f"<s> {prompt}": text for prompt, text in TEXTS.items()}
    rollout = roll(WordDraws(texts=texts), wire=lambda text: f"<s> {text}")
    assert (rollout.total_tokens, rollout.longest_tokens) == (29, 11)


def test_rounds_follow_each_other():
    """Two rounds: critical 4 + 2 + 4 + 5 + 2, since the second round's children wait for the first join.

    Round 1: " [ 1 ]" and end, 4 tokens; its child " none", 2. Round 2: 4 tokens; its child 4 + end = 5.
    The last segment " d": 2.
    """
    texts = {
        "parent 0": " [ 1 ]",
        "child 1": " none",
        "parent 0 ( - )": " [ 2 ]",
        "child 2": " a b c 7!",
        "parent 0 ( - ) ( 7! )": " d",
    }
    rollout = roll(WordDraws(texts=texts))
    assert rollout.cost.critical_tokens == rollout.cost.completion_tokens == 17
    assert [one.round for one in rollout.sequences] == [0, 0, 1, 1, 2]


def test_a_forged_join_costs_what_was_drawn():
    """`` a (`` is drawn, 2 tokens, of which 1 is kept; `` 1 ]`` and end are 3; child 2; `` c`` and end 2.

    Total: 2 + 1; the further sequence 4 + 3 less the 3 that are counted; child 2 + 2; the last segment
    "parent 0 a ( - )" 6 + 2 less 3. In all 3 + 4 + 4 + 5 = 16.
    """
    texts = {
        "parent 0": " a ( 9! )",
        "parent 0 a [": " 1 ]",
        "child 1": " none",
        "parent 0 a ( - )": " c",
    }
    rollout = roll(WordDraws(texts=texts), grammar=BracketGrammar(forbidden={" (": " ["}))
    assert rollout.cost.completion_tokens == rollout.cost.critical_tokens == 2 + 3 + 2 + 2
    assert rollout.total_tokens == 16


def test_a_failed_child_costs_its_draws_and_has_no_tokens():
    """Child 1 spawns, and its second draw fails: 3 + 1 calls, one failed; drawn tokens are those of all.

    Parent 4 + 2; child 1 4 (`` [ 2 ]`` and end); child 2 2. The total has the parent's alone:
    2 + 4, and "parent 0 ( - )" 5 + 2 less 2.
    """
    texts = {
        "parent 0": " [ 1 ]",
        "child 1": " [ 2 ]",
        "child 2": " none",
        "child 1 ( - )": None,
        "parent 0 ( - )": " c",
    }
    rollout = roll(WordDraws(texts=texts), limits={"depth": 2})
    assert (rollout.cost.calls, rollout.cost.failed_calls) == (5, 1)
    assert rollout.cost.completion_tokens == 4 + 4 + 2 + 2
    assert (len(rollout.sequences), rollout.total_tokens) == (2, 11)
