"""`reasonloop apr solve`: at a chat server, in process, and within its limits whatever the model writes."""

import pytest
import torch
from starlette.responses import JSONResponse
from transformers import LlamaConfig, LlamaForCausalLM

from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.engines.client.client import ServerChat
from pipeline_lib.seeding import child_random
from pipeline_lib.store.files import read_json_lines, write_json_lines
from pipeline_lib.systems.apr.solve import Solver, answer_of
from pipeline_lib.systems.apr.threads import Event, Limits
from tests.unit.engines.scripted_server import MODEL, scripted_server
from tests.unit.systems.apr.learned_model import save_tokenizer
from tests.unit.systems.pacore.scripted_chat import chat_response

PIECES = (
    *("<spawn>", "</spawn>", "<task>", "</task>", "<join>", "</join>", "<result>", "42", "so"),
    "<spawn><task>one</task><task>two</task><task>three</task></spawn>",
)
LIMITS = Limits(depth=2, children=2, draws=3, tokens=150)


def solved(client, *questions):
    decoding = Decoding(temperature=1.0, max_new_tokens=40)
    solver = Solver(engine=client, limits=LIMITS, decoding=decoding, concurrency=8, seed=1)
    return solver.solve(questions)


@pytest.fixture
def server():
    with scripted_server() as running:
        running.models = [{"id": MODEL}]
        yield running


def test_a_chat_server_answers_by_threads(called, server):
    """The parent spawns two children, which are messages of their own; the last call has their results."""

    async def reply(_request, body):
        first, *later = [turn["content"] for turn in body["messages"]]
        if later:
            text = f"So {'12' if '<result>3</result>' in later[0] else 'unknown'}."
        elif "The part: " in first:
            text = "3" if first.endswith("add") else "4"
        else:
            text = "<spawn><task>add</task><task>four</task></spawn> <join>9</join>"
        return JSONResponse(chat_response(body, text))

    server.always = reply
    at = ("--engine", "url", "--set", f"serve.url=http://127.0.0.1:{server.port}/v1")
    lines = called("apr", "solve", MODEL, "What is 1 + 2, times 4?", *at).stdout.splitlines()
    assert any(line.endswith("So 12.") for line in lines)
    assert any(line.startswith("calls: 4, 0 failed; the parent ended: finished") for line in lines)
    assert any("2 children" in line for line in lines)


@pytest.fixture
def random_model(tmp_path):
    """Writes characters at random, in a context of 1,024 tokens."""
    tokenizer = save_tokenizer(tmp_path)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=len(tokenizer),
                hidden_size=16,
                intermediate_size=16,
                num_hidden_layers=1,
                num_attention_heads=2,
                num_key_value_heads=2,
                max_position_embeddings=1024,
                pad_token_id=tokenizer.pad_token_id,
                eos_token_id=tokenizer.eos_token_id,
            )
        )
    model.save_pretrained(tmp_path)
    return tmp_path


def test_a_model_in_process_keeps_its_limits(called, random_model):
    """A model without a chat template: one draw of 20 tokens, and the account says so."""
    done = called("apr", "solve", random_model, "1 + 2?", "--max-tokens", "20")
    assert "tokens: 20 drawn, 20 on the critical path" in done.stdout


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("1 + 2? " * 200, "the question leaves no room in the model's context"),
        (" ", "the question is empty"),
    ],
)
def test_a_question_that_cannot_be_asked_is_one_line(refused, random_model, question, message):
    """Before anything is drawn."""
    assert message in refused("apr", "solve", random_model, question)


def test_limits_and_accounting_hold_whatever_the_model_writes(server):
    """40 questions, answered by random tags: no limit is exceeded, and the counts are those of the server."""

    async def reply(_request, body):
        random = child_random(body["seed"], "text")
        words = [random.choice(PIECES) for _ in range(random.randint(1, body["max_tokens"]))]
        response = chat_response(body, " ".join(words))
        response["usage"]["completion_tokens"] = len(words)
        replies.append(len(words))
        return JSONResponse(response)

    replies: list[int] = []
    server.always = reply
    client = server.client(engine="url", chat_format=ServerChat())
    spawned = 0
    for number in range(40):
        replies.clear()
        rollout = solved(client, f"question {number}")[0]
        assert rollout.cost.completion_tokens == sum(replies) <= LIMITS.tokens
        assert rollout.cost.calls == len(replies)
        assert rollout.cost.critical_tokens <= rollout.cost.completion_tokens
        spawned += rollout.events[Event.CHILDREN]
        assert not any("<join>" in one.output for one in rollout.sequences)
    assert spawned > 40


def test_questions_answered_at_once_have_seeds_of_their_own(server):
    """The first answer is the one that it has alone; an equal question beside it is drawn independently."""

    async def reply(_request, body):
        return JSONResponse(chat_response(body, f"seed {body['seed']}"))

    server.always = reply
    client = server.client(engine="url", chat_format=ServerChat())
    first, twin, other = map(answer_of, solved(client, "q", "q", "r"))
    assert [first] == [*map(answer_of, solved(client, "q"))]
    assert len({first, twin, other}) == 3


def test_a_file_is_answered_once_and_what_failed_is_asked_again(called, refused, server, tmp_path):
    """Forty questions, of which one fails: the same command asks that one alone, and the file is in order."""
    asked: list[str] = []
    is_down = True

    async def reply(_request, body):
        question = body["messages"][0]["content"].rpartition("Question: ")[2]
        asked.append(question)
        if question == "q7" and is_down:
            return JSONResponse({"error": {"message": "no"}}, status_code=400)
        return JSONResponse(chat_response(body, f"answer to {question}"))

    server.always = reply
    source, output = tmp_path / "questions.jsonl", tmp_path / "answers.jsonl"
    write_json_lines(source, [{"id": f"i{n}", "question": f"q{n}", "page": n} for n in range(40)])
    at = ("--engine", "url", "--set", f"serve.url=http://127.0.0.1:{server.port}/v1")
    command = ("apr", "solve", MODEL, "--problems", source, "--output", output, *at)
    failed = called(*command)
    assert failed.returncode == 1
    assert "1 of 40 failed; the same command asks them again" in failed.stderr
    assert "error" in [*read_json_lines(output)][7]
    asked.clear()
    is_down = False
    assert "40 of 40 answered" in called(*command).stdout
    assert [one for one in asked if one.startswith("q")] == ["q7"]
    rows = [*read_json_lines(output)]
    assert [(one["id"], one["page"], one["answer"]) for one in rows] == [
        (f"i{n}", n, f"answer to q{n}") for n in range(40)
    ]
    assert "give either a question, or --problems FILE" in refused("apr", "solve", MODEL)
