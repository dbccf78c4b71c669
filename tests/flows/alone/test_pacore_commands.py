"""`reasonloop pacore` as a user runs it: a file of questions against a server, killed and continued."""

import json

import pytest
from starlette.responses import JSONResponse

from flows.cli.app import main
from tests.unit.engines.scripted_server import MODEL, answers, scripted_server
from tests.unit.systems.pacore.scripted_chat import by_seed, chat_response
from tests.waiting import kill_when

NUM_QUESTIONS = 12


@pytest.fixture
def server():
    with scripted_server() as running:
        running.models = [{"id": MODEL}]
        running.always = by_seed()
        yield running


@pytest.fixture
def questions(tmp_path):
    path = tmp_path / "questions.jsonl"
    rows = [
        {
            "id": number,
            "messages": [{"role": "user", "content": f"What is {number}+1?"}],
            "tag": "t",
        }
        for number in range(NUM_QUESTIONS)
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path


def at(server):
    return ["--engine", "url", "--set", f"serve.url=http://127.0.0.1:{server.port}/v1"]


def run(*arguments):
    """The exit code of a command."""
    with pytest.raises(SystemExit) as stopped:
        main(["pacore", *map(str, arguments)])
    return stopped.value.code


def batch(server, source, output, *more, model=MODEL):
    return run("batch", model, source, "--output", output, *at(server), *more)


def failing_for(question):
    """The synthesis of one question is refused."""
    refuse = answers({"error": {"message": "no such luck"}}, status=400)

    async def reply(request, body):
        text = body["messages"][-1]["content"]
        fails = "candidate solutions" in text and question in text
        return await (refuse if fails else by_seed())(request, body)

    return reply


def read(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def asked(bodies):
    """The question of each request, the probe at the start left out."""
    texts = [body["messages"][-1]["content"] for body in bodies]
    return [
        next(n for n in reversed(range(NUM_QUESTIONS)) if f"What is {n}+1?" in text)
        for text in texts
        if "What is" in text
    ]


def test_answers_in_order(server, questions, tmp_path, capsys):
    """Every documented field; ids and further fields as given; usage is the sum over the calls."""
    output = tmp_path / "answers.jsonl"
    assert batch(server, questions, output) == 0
    rows = read(output)
    assert [row["request_id"] for row in rows] == list(range(NUM_QUESTIONS))
    assert {row["tag"] for row in rows} == {"t"}
    first = rows[0]
    assert first["status"] == "stop"
    assert [len(drawn) for drawn in first["round_responses"]] == [4, 1]
    assert first["final_response"] == first["round_responses"][1][0]["content"]
    assert first["final_reasoning_content"] == f"about {first['final_response']}"
    assert first["usage"] == {
        "prompt_tokens": 5 * 12,
        "completion_tokens": 5 * 4,
        "total_tokens": 80,
        "calls": 5,
        "failed_calls": 0,
    }
    assert first["critical_tokens"] == 8
    assert [part["asked"] for part in first["rounds"]] == [4, 1]
    assert "12 questions: 60 calls, 0 failed" in capsys.readouterr().out
    assert not output.with_name("answers.jsonl.partial").exists()


def test_a_killed_batch_continues(server, questions, tmp_path):
    """SIGKILL half-way: the same command asks no finished question again, and the file is the same."""
    unbroken, output = tmp_path / "unbroken.jsonl", tmp_path / "answers.jsonl"
    options = ["--set", "pacore.widths=[3,2]", "--set", "pacore.problems_together=2"]
    assert batch(server, questions, unbroken, *options) == 0
    server.always = by_seed(lambda _body: 0.1)
    journal = output.with_name("answers.jsonl.partial")
    kill_when(
        lambda: journal.exists() and journal.read_text("utf-8").count("\n") > 4,
        *("pacore", "batch", MODEL, questions, "--output", output, *at(server), *options),
    )
    written = journal.read_text("utf-8").split("\n")[1:-1]  # without a line that the kill has torn
    finished = {int(json.loads(line)["name"]) for line in written}
    assert 4 <= len(finished) < NUM_QUESTIONS
    server.bodies.clear()
    assert batch(server, questions, output, *options) == 0
    assert set(asked(server.bodies)) == set(range(NUM_QUESTIONS)) - finished
    assert output.read_bytes() == unbroken.read_bytes()


def test_failed_questions_are_asked_again(server, questions, tmp_path, capsys):
    """A failed last call: a line with the error, exit code 1; the same command asks that one alone."""
    output = tmp_path / "answers.jsonl"
    server.always = failing_for("What is 5+1?")
    assert batch(server, questions, output) == 1
    assert "1 of 12 questions have no answer" in capsys.readouterr().err
    rows = read(output)
    assert "no such luck" in rows[5].pop("error")
    assert rows[5] == {"request_id": 5, "tag": "t"}
    server.always = by_seed()
    server.bodies.clear()
    assert batch(server, questions, output) == 0
    assert set(asked(server.bodies)) == {5}
    assert all("error" not in row for row in read(output))


def numbers(_request, body):
    """Boxed numbers by seed, of which 2 is drawn most."""
    seed = body.get("seed", 0) % 7
    text = f"\\boxed{{{min(seed, 2)}}}"

    async def reply():
        return JSONResponse(chat_response(body, text))

    return reply()


def test_a_vote_is_the_consensus_of_its_file(server, questions, tmp_path):
    """`--final vote` draws the paths of the synthesis, without its last call, and answers as `consensus` does."""
    server.always = numbers
    synthesis, voted, majority = (tmp_path / f"{name}.jsonl" for name in ("s", "v", "m"))
    wide = ("--set", "pacore.widths=[9]")
    assert batch(server, questions, synthesis, *wide) == 0
    assert batch(server, questions, voted, *wide, "--final", "vote") == 0
    rows = read(voted)
    assert [row["round_responses"][:1] for row in read(synthesis)] == [
        row["round_responses"] for row in rows
    ]
    for source in (synthesis, voted):
        assert run("consensus", source, "--output", majority) == 0
        assert [row["text"] for row in read(majority)] == [row["final_response"] for row in rows]
    assert len({row["final_response"] for row in rows}) == 1
    assert {row["usage"]["calls"] for row in rows} == {9}


NOBODY = ("--master", "127.0.0.1:9")
BATCH = ("batch", "A", "questions.jsonl", "--output", "answers.jsonl")
WORKER = ("worker", "A", *NOBODY, "--node-id")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*BATCH, "--set", "pacore.early_stop.minimum=1"], "early_stop"),
        ([*BATCH, *NOBODY], "9: no answer"),
        ([*BATCH, "--master", "here"], "give HOST:PORT"),
        ([*BATCH, "--master", f"{'a' * 64}:6400"], f"--master {'a' * 64}:6400: no answer"),
        ([*BATCH, "--master", "a..b:6400"], "--master a..b:6400: no answer"),
        ([*BATCH, "--with", "B"], "needs --master"),
        ([*BATCH, "--detach"], "--detach: needs --master"),
        ([*BATCH, "--final", "best"], "--final"),
        ([*BATCH, *NOBODY, "--engine", "url"], "the workers have"),
        (["serve", "A", *NOBODY, "--engine", "url"], "the workers have"),
        (["serve", "A", "--port=-1"], "--port"),
        (["serve", "A", "--port=70000"], "--port"),
        ([*WORKER, "1"], "reasonloop pacore master --port 9"),
        ([*WORKER, "a/b"], "--node-id a/b"),
        ([*WORKER, "1", "--node-ip", "127.0.0.2"], "start it with --host"),
        (["master", "--port", "0"], "--port"),
    ],
)
def test_bad_options_are_one_line(refused, questions, monkeypatch, arguments, message):
    """Exit code 2, before Ray is imported, and no file is written."""
    monkeypatch.chdir(questions.parent)
    assert message in refused("pacore", *arguments)
    assert [path.name for path in questions.parent.iterdir()] == ["questions.jsonl"]


def test_bad_files_and_models_make_no_call(refused, server, questions):
    """A line without id, no file, a model that is not served, an output that is the input."""
    folder = questions.parent
    (folder / "nameless").write_text('{"messages": []}\n', "utf-8")
    for model, source, output, message in (
        (MODEL, "nameless", "a", "nameless:1: id"),
        (MODEL, "absent", "a", "no such file"),
        ("other", "questions.jsonl", "a", "does not serve other"),
        (MODEL, "questions.jsonl", "questions.jsonl", "is the input itself"),
    ):
        command = ("batch", model, folder / source, "--output", folder / output, *at(server))
        assert message in refused("pacore", *command)
    assert server.bodies == []


def test_solve_shows_the_rounds(server, capsys):
    """A line per round, its messages, the answer, and what it cost."""
    assert run("solve", MODEL, "What is 1+1?", "--set", "pacore.widths=[32,4]", *at(server)) == 0
    shown = capsys.readouterr().out
    assert "round 1 of 3: 32 paths; 128 tokens" in shown
    assert "round 2 of 3: 4 paths, 32 references; 16 tokens" in shown
    assert "round 3 of 3: 1 paths, 4 references; 4 tokens" in shown
    assert "37 calls, 0 failed; 444 prompt and 148 drawn tokens, 12 in sequence" in shown


def test_consensus_of_a_round(server, questions, tmp_path, capsys):
    """The output of a batch is an input: one line per question."""
    answered, elected = tmp_path / "answers.jsonl", tmp_path / "consensus.jsonl"
    assert batch(server, questions, answered) == 0
    assert run("consensus", answered, "--output", elected) == 0
    rows = read(elected)
    assert [row["problem_id"] for row in rows] == [str(number) for number in range(NUM_QUESTIONS)]
    assert {row["texts"] for row in rows} == {4}
    assert "12 questions, 48 texts" in capsys.readouterr().out
