"""`reasonloop pacore evaluate` against a scripted server: strategies, shared calls, resume, the report."""

import json
import re

import pytest
from starlette.responses import JSONResponse

from flows.cli.app import main
from pipeline_lib.params_file import load_params
from pipeline_lib.problems.trained import write_record
from pipeline_lib.store import shards
from pipeline_lib.study.study import read_study
from pipeline_lib.systems.pacore.evaluation import read_problems
from pipeline_lib.systems.pacore.message_cache import read_cache
from tests.unit.engines.scripted_server import MODEL, answers, scripted_server
from tests.unit.problems.code_rows import livecodebench, write_rows
from tests.unit.systems.pacore.scripted_chat import chat_response

NUM_PROBLEMS = 6
SETTINGS = [
    *("--set", "prepare.dataset=word-problems", "--set", "prepare.train_problems=8"),
    *("--set", "pacore.evaluate.widths=[[2],[4,2]]", "--set", "pacore.evaluate.plain_paths=6"),
    *("--set", "pacore.evaluate.rsa.population=3", "--set", "pacore.evaluate.rsa.subset=2"),
    *("--set", "pacore.evaluate.early_stop.minimum=2", "--set", "evaluate.resamples=200"),
    *("--set", "pacore.evaluate.greedy=false", "--set", "pacore.evaluate.other_references=false"),
    *("--set", "report.num_examples=3", "--set", f"prepare.test_problems={NUM_PROBLEMS}"),
]


async def by_seed(_request, body):
    """Answers 1 to 5 by seed; <script> is text that a page must escape."""
    text = f"<script>alert(1)</script> \\boxed{{{1 + body.get('seed', 0) % 5}}}"
    return JSONResponse(chat_response(body, text))


@pytest.fixture
def server():
    with scripted_server() as running:
        running.models = [{"id": MODEL}]
        running.always = by_seed
        yield running


def evaluate(server, output, *more):
    options = ["--engine", "url", "--set", f"serve.url=http://127.0.0.1:{server.port}/v1"]
    with pytest.raises(SystemExit) as stopped:
        main(["pacore", "evaluate", MODEL, "--output", str(output), *options, *SETTINGS, *more])
    return stopped.value.code


def test_strategies_share_their_plain_paths(server, tmp_path, capsys):
    """Six plain paths cover every first round: beyond them only syntheses are called; again nothing is."""
    assert evaluate(server, tmp_path / "report") == 0
    plain = [b for b in server.bodies if "candidate solutions" not in b["messages"][-1]["content"]]
    # One further request is the probe of the server at the start.
    assert len(plain) == 6 * NUM_PROBLEMS + 1
    assert "rounds 4,2,1" in capsys.readouterr().out
    server.bodies.clear()
    assert evaluate(server, tmp_path / "report") == 0
    assert len(server.bodies) == 1


def test_metrics_and_report(server, tmp_path):
    """Every strategy against votes on three axes; rounds unfold; model output is escaped; no request."""
    assert evaluate(server, tmp_path / "report") == 0
    study = read_study(tmp_path / "report" / "metrics.json")
    strategies = {one.arm for one in study.differences}
    assert strategies == {
        *("rounds 2,1", "rounds 4,2,1", "rounds 4,2,1, early stop"),
        "RSA 3, subsets of 2, 2 steps",
    }
    assert len(study.differences) == 3 * len(strategies)
    assert {one.n for one in study.differences} == {NUM_PROBLEMS}
    assert study.headline.arm == "rounds 2,1"
    assert study.headline.reference == "best vote, drawn for=rounds 2,1"
    attempts = shards.read_table(tmp_path / "report" / "attempts")
    assert len(attempts) == NUM_PROBLEMS * (6 + len(strategies))
    assert {one["arm"] for one in attempts} == {"one path", *strategies}
    text = (tmp_path / "report" / "report.html").read_text("utf-8")
    assert study.claims[0] in text
    assert text.count("<img ") == 3
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert not re.search(r'src="(?!data:)', text)
    assert re.findall(r'href="([^"#]*)', text) == ["https://arxiv.org/abs/2601.05593"]
    assert "rounds 4,2,1: round 3" in text


def test_a_cache_of_the_train_split_has_no_evaluated_problem(server, tmp_path):
    """The recipe of docs/pacore.md: of 6 problems each, those of sample and of evaluate are apart."""
    url = ["--set", "serve.engine=url", "--set", f"serve.url=http://127.0.0.1:{server.port}/v1"]
    prepared = [one for one in SETTINGS if one.startswith("prepare.")]
    sets = [word for one in prepared for word in ("--set", one)]
    cache = tmp_path / "cache.jsonl"
    arguments = ["--split", "train", "--num-paths", "2", "--problems", "6", *url, *sets]
    with pytest.raises(SystemExit) as stopped:
        main(["sample", MODEL, "--output", str(cache), *arguments])
    assert stopped.value.code == 0
    cached = {question.problem.question for question in read_cache(cache, kind="math")}
    evaluated = {problem.question for problem in read_problems(load_params(overrides=prepared))[0]}
    assert len(cached) == 6
    assert not cached & evaluated


def test_problems_of_a_training_are_a_loud_line(server, tmp_path, monkeypatch, capsys):
    """A model whose folder records the test problems: in the terminal, in the metrics and on the page."""
    monkeypatch.chdir(tmp_path)
    params = load_params(overrides=[one for one in SETTINGS if one.startswith("prepare.")])
    asked = read_problems(params)[0][:NUM_PROBLEMS]
    (tmp_path / MODEL).mkdir(parents=True)
    write_record(tmp_path / MODEL, asked, start="hub")
    assert evaluate(server, tmp_path / "report") == 0
    loud = f"NOT HELD OUT: the training of rounds 2,1 saw {NUM_PROBLEMS} of the evaluated problems"
    study = read_study(tmp_path / "report" / "metrics.json")
    page = (tmp_path / "report" / "report.html").read_text("utf-8")
    for text in (capsys.readouterr().out, page, " ".join(study.claims)):
        assert loud in " ".join(text.split())
    assert {one.num_seen for one in study.arms} == {NUM_PROBLEMS}


def test_a_whole_data_set_is_answered(server, tmp_path, capsys):
    """All 30 problems of a contest without a train split; one data set an evaluation."""
    (tmp_path / "aime24").mkdir()
    rows = [{"problem": f"What is {n}+1?", "answer": str(n + 1)} for n in range(30)]
    lines = [json.dumps(row) + "\n" for row in rows]
    (tmp_path / "aime24" / "test.jsonl").write_text("".join(lines), "utf-8")
    whole = ("--dataset", f"aime24={tmp_path / 'aime24'}", "--problems", "30")
    assert evaluate(server, tmp_path / "report", *whole) == 0
    study = read_study(tmp_path / "report" / "metrics.json")
    assert {one.n for one in study.differences} == {30}
    assert evaluate(server, tmp_path / "report", "--dataset", "aime24,aime25") == 2
    assert "--dataset aime24,aime25: give one data set" in capsys.readouterr().err


def test_programs_are_synthesized_and_judged(server, tmp_path):
    """LiveCodeBench: right methods and wrong programs to two problems each, by the verdicts of the sandbox."""
    rows = livecodebench()[8:12]
    write_rows(tmp_path / "lcb" / "test.jsonl", [row for row, *_ in rows])

    async def written(_request, body):
        asked = json.dumps([one["content"] for one in body["messages"]])
        row, right, wrong = next(
            (one for one in rows if one[0]["question_content"][:20] in asked), rows[0]
        )
        program = right if row["starter_code"] else wrong
        return JSONResponse(chat_response(body, f"So:\n```python\n{program}\n```"))

    server.always = written
    assert (
        evaluate(server, tmp_path / "report", "--dataset", f"livecodebench={tmp_path / 'lcb'}") == 0
    )
    attempts = shards.read_table(tmp_path / "report" / "attempts")
    rights = {(one["problem_id"], one["right"]) for one in attempts}
    assert rights == {("made_8", True), ("made_9", True), ("made_10", False), ("made_11", False)}
    assert {one["arm"] for one in attempts} >= {"one path", "rounds 4,2,1"}


def test_a_failed_call_leaves_its_problem_out(server, tmp_path):
    """Not scored as wrong but left out of every figure; the next command asks again, for this problem alone."""
    count = iter(range(10_000))
    refuse = answers({"error": {"message": "no"}}, status=400)

    async def one_fails(request, body):
        return await (refuse if next(count) == 3 else by_seed)(request, body)

    server.always = one_fails
    assert evaluate(server, tmp_path / "report") == 0
    study = read_study(tmp_path / "report" / "metrics.json")
    assert (study.headline.n, [one.n for one in study.left_out]) == (NUM_PROBLEMS - 1, [1])
    server.bodies.clear()
    assert evaluate(server, tmp_path / "report") == 0
    study = read_study(tmp_path / "report" / "metrics.json")
    assert (study.headline.n, study.left_out) == (NUM_PROBLEMS, ())
    assert 1 < len(server.bodies) < 8 * 6


def test_too_few_plain_paths_are_bad_input(server, tmp_path, capsys):
    """A first round of four needs five plain paths; nothing is called."""
    assert evaluate(server, tmp_path / "report", "--set", "pacore.evaluate.plain_paths=4") == 2
    assert "plain_paths=4; a first round has 4" in capsys.readouterr().err
    assert server.bodies == []


def test_a_small_split_is_said(server, synthetic_data, tmp_path, capsys):
    """One of two problems of a set without splits: how many, why, and what would give more."""
    data = [
        "--set",
        "prepare.dataset=aime",
        "--set",
        f"prepare.source={synthetic_data / 'aime24'}",
    ]
    assert evaluate(server, tmp_path / "report", *data) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "prepare.test_problems=6: the data set leaves 1 for this split: its 2 problems are divided by "
        "train_problems=8 and test_problems=6; lower prepare.train_problems for more test problems"
    ) in said
