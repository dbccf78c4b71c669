"""`reasonloop pacore` as a user runs it: a file of questions against a server, killed and continued."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from flows.cli.app import main
from tests.unit.engines.scripted_server import MODEL, answers, scripted_server
from tests.unit.systems.pacore.scripted_chat import by_seed

NUM_QUESTIONS = 12
GIVE_UP_S = 120.0


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
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "flows.cli", "pacore", "batch", MODEL, str(questions)),
            *("--output", str(output), *at(server), *options),
        ]
    )
    deadline = time.monotonic() + GIVE_UP_S
    while not (journal.exists() and len(journal.read_text("utf-8").splitlines()) > 4):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    finished = {int(line["name"]) for line in read(journal)[1:]}
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


def test_widths_and_a_population(server, capsys):
    """10 calls of a population of 3 in 3 steps; 5 calls of one round of 4."""
    rsa = "pacore.rsa={population: 3, subset: 2, steps: 3}"
    for setting, calls in ((rsa, 10), ("pacore.widths=[4]", 5)):
        assert run("solve", MODEL, "What is 1+1?", *at(server), "--set", setting) == 0
        assert f"{calls} calls" in capsys.readouterr().out


def test_bad_ports_are_one_line(capsys):
    """Of `pacore serve`, as of `pacore master`."""
    for port in ("-1", "70000"):
        assert run("serve", MODEL, f"--port={port}") == 2
        [line] = capsys.readouterr().err.splitlines()
        assert "--port" in line


@pytest.mark.parametrize("host", ["a" * 64, "a..b"])
def test_a_host_that_is_no_name_is_one_line(host, capsys):
    """A label of a name has 1 to 63 characters."""
    assert run("solve", MODEL, "Why?", "--master", f"{host}:6400") == 2
    [line] = capsys.readouterr().err.splitlines()
    assert f"--master {host}:6400: no answer" in line


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--set", "pacore.widths=[4,0]"], "pacore.widths"),
        (["--set", "pacore.compaction=some"], "some"),
        (["--set", "pacore.kind=code"], "pacore.kind"),
        (["--set", "pacore.early_stop.minimum=1"], "early_stop"),
    ],
)
def test_bad_options_make_no_call(server, questions, tmp_path, capsys, options, message):
    """One line, exit code 2, and no request."""
    assert batch(server, questions, tmp_path / "answers.jsonl", *options) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert message in line
    assert server.bodies == []
    assert [path.name for path in tmp_path.iterdir()] == ["questions.jsonl"]


def test_bad_files_and_models_make_no_call(server, questions, tmp_path, capsys):
    """An empty file, a line without id, a model that is not served, an output that is the input."""
    empty, nameless = tmp_path / "empty.jsonl", tmp_path / "nameless.jsonl"
    empty.write_text("", "utf-8")
    nameless.write_text('{"messages": []}\n', "utf-8")
    for model, source, output, message in [
        (MODEL, empty, "a", "no questions"),
        (MODEL, nameless, "a", "nameless.jsonl:1: id"),
        (MODEL, tmp_path / "absent", "a", "no such file"),
        ("other", questions, "a", "does not serve other"),
        (MODEL, questions, questions, "is the input itself"),
    ]:
        assert batch(server, source, tmp_path / output, model=model) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert message in line
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
