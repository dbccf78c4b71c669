"""`reasonloop data check`: what a data set holds, and damage as one line with file, row and remedy."""

import os
import subprocess
import sys

import pytest

from benchmarks.lib.repository import REPOSITORY
from tests.flows.own_rows import ROWS, WRITERS, json_lines, write_json_lines
from tests.unit.tiny_models import BOS, CHAT, EOS, TinyModel, make_tokenizer

COLUMNS = ("--set", "prepare.columns.question=task", "--set", "prepare.columns.answer=result")
SIZES = ("--set", "prepare.train_problems=40", "--set", "prepare.test_problems=20")


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_is_shown_alike(called, tmp_path, name):
    """60 rows under other names of columns: 40 for training, 20 for the test, without a common problem."""
    rows = [{"task": r["question"], "result": r["answer"], "level": r["level"]} for r in ROWS]
    WRITERS[name](tmp_path / name, rows)
    done = called("data", "check", tmp_path / name, *COLUMNS, *SIZES)
    assert done.returncode == 0, done.stderr
    shown = done.stdout.split("\n\nprompt: ")[0].split()
    assert " ".join(shown).startswith(
        "split rows drawn kinds train 60 40 math 60 test 0 20 bootstrap 0 0 "
    )
    assert "further columns: level" in done.stdout
    assert "golds that cannot be used: 0" in done.stdout
    assert "words of a train question: 11 to 11, median 11" in done.stdout
    assert done.stdout.count("put the final answer within \\boxed{}.") == 3
    assert len(done.stdout.splitlines()) < 40


def test_the_command_loads_no_deep_learning_stack(tmp_path):
    """It starts fast, and works where none is installed."""
    write_json_lines(tmp_path / "rows.jsonl", ROWS)
    program = (
        "import sys\n"
        "from flows.cli.app import main\n"
        "try:\n    main(['data', 'check', sys.argv[1]])\n"
        "except SystemExit as end:\n    print(end.code, {'torch', 'transformers'} & {*sys.modules})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "rows.jsonl")],
        env=os.environ | {"PREFECT_API_URL": "http://127.0.0.1:9/api"},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "0 set()"


def test_prompts_in_the_chat_format_of_a_model(called, tmp_path):
    """Of single bytes: a token for each sign of the prompt, and one for each special one."""
    make_tokenizer(TinyModel(template=CHAT)).save_pretrained(tmp_path / "model")
    write_json_lines(tmp_path / "rows.jsonl", ROWS[10:])
    done = called("data", "check", tmp_path / "rows.jsonl", "--tokenizer", tmp_path / "model")
    assert done.returncode == 0, done.stderr
    prompt = done.stdout.split("\nprompt: ")[-1].rstrip("\n")
    signs = len(prompt) - sum(prompt.count(mark) * (len(mark) - 1) for mark in (BOS, EOS))
    assert f"tokens of a train prompt: {signs} to {signs}, " in done.stdout


GOOD = {"question": "What is 1+1?", "answer": "2"}
OTHER = {"question": "What is 2+2?", "answer": "4"}


def lines(*rows: object) -> bytes:
    return json_lines([GOOD, *rows]).encode()


DAMAGE = {
    "missing column": ("d.csv", b"task,answer\n1+1?,2\n", "d.csv:2: no row has a column question"),
    "missing value": ("d.jsonl", lines({"question": "2?"}), "d.jsonl:2: 'answer or gold': missing"),
    "empty question": (
        "d.jsonl",
        lines({**OTHER, "question": " "}),
        "d.jsonl:2: 'question': it is",
    ),
    "empty cell": ("d.csv", b"question,answer\n1+1?,2\n,3\n", "d.csv:3: 'question': it is empty"),
    "empty answer": (
        "d.jsonl",
        lines({**OTHER, "answer": ""}),
        "d.jsonl:2: 'answer': it is empty",
    ),
    "repeated id": (
        "d.jsonl",
        lines({**OTHER, "id": 7}, {**OTHER, "id": "7", "answer": "5"}),
        "d.jsonl:3: the problem '7' is also at",
    ),
    "no JSON": ("d.jsonl", lines()[:-1] + b"}\n", "d.jsonl:1: not a JSON object"),
    "cut short": ("d.jsonl", lines(OTHER)[:-9], "d.jsonl:2: not a JSON object"),
    "wrong type": (
        "d.jsonl",
        lines({**OTHER, "question": 2.5, "answer": [1]}),
        "d.jsonl:2: 'answer': Input should be a valid string",
    ),
    "NaN": (
        "d.jsonl",
        lines({**OTHER, "answer": float("nan")}),
        "d.jsonl:2: 'answer': expected a string or a finite number, got nan",
    ),
    "NaN beside": ("d.jsonl", lines({**OTHER, "x": float("nan")}), "d.jsonl:2: 'x': no JSON value"),
    "Latin-1 lines": (
        "d.jsonl",
        lines() + b'{"question": "\xe9"}\n',
        "d.jsonl:2: not a JSON object",
    ),
    "Latin-1 CSV": ("d.csv", b"question,answer\n1+1\xe9,2\n", "d.csv:2: not UTF-8"),
    "empty file": ("d.jsonl", b"", "d.jsonl: the train split of lines is empty"),
    "header alone": ("d.csv", b"question,answer\n", "d.csv: the train split of lines is empty"),
    "ragged CSV": (
        "d.csv",
        b'question,answer\n"1,\n1?",2\n1,2,3\n',
        "d.csv:4: not CSV (the row has not 2 cells",
    ),
    "open quote": ("d.csv", b'question,answer\n"1+1?,2\n', "d.csv:2: not CSV"),
    "equal columns": (
        "d.csv",
        b"answer,answer\n1,2\n",
        "d.csv:2: not CSV (two columns have one name",
    ),
    "broken Parquet": ("d.parquet", b"PAR1", "d.parquet: not a parquet file"),
    "another format": ("d.txt", b"1+1?\n", "d.txt: is no .jsonl, .jsonl.gz, .csv or .parquet file"),
    "unknown kind": ("d.jsonl", lines({**OTHER, "kind": "mth"}), "d.jsonl:2: kind='mth'; expected"),
    "gold of the kind": (
        "d.jsonl",
        lines({**OTHER, "kind": "countdown", "numbers": [1, 2]}),
        "d.jsonl:2: 'countdown': target: Field required",
    ),
    "unusable gold": (
        "d.jsonl",
        lines({**OTHER, "answer": "\\frac{1}{"}, {"question": "What is 3+3?", "answer": "6"}),
        "d.jsonl:2: the gold is unusable (",
    ),
    "no Python": (
        "d.jsonl",
        lines({**OTHER, "tests": "assert ("}),
        "d.jsonl:2: 'tests': not Python",
    ),
    "no function": (
        "d.jsonl",
        lines({**OTHER, "tests": "assert 1"}),
        "d.jsonl:2: 'tests': no func",
    ),
    "messages as text": (
        "d.jsonl",
        lines({"messages": "2?", "answer": "2"}),
        "d.jsonl:2: 'messages'",
    ),
    "unknown role": (
        "d.jsonl",
        lines({"messages": [{"role": "robot", "content": "2?"}], "answer": "2"}),
        "d.jsonl:2: 'messages': 0.role: Input should be 'system'",
    ),
    "answered messages": (
        "d.jsonl",
        lines({"messages": [{"role": "assistant", "content": "2"}], "answer": "2"}),
        "d.jsonl:2: 'messages': the last message must be the user's",
    ),
    "half a character": (
        "d.jsonl",
        lines({**OTHER, "question": "\ud800"}),
        "d.jsonl:2: 'question'",
    ),
    "id of no puzzle": (
        "d.jsonl",
        lines({**OTHER, "kind": "arc", "answer": [[1]], "id": "a"}),
        "d.jsonl:2: 'id': 'a' is no id of an ARC problem",
    ),
    "nowhere": ("d", None, "d: no such folder or file, and not a hub id"),
}
REMEDIES = (
    *("correct or remove", "set prepare.columns", "remove one of them", "save ", "fetch it again"),
    *("quote cells", "write it again", "convert it", "expected one of", "truncated"),
    "give the folder",
)


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_one_line(refused, tmp_path, damage):
    """File, row, what is wrong and what to do; exit code 2."""
    name, content, words = DAMAGE[damage]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    line = refused("data", "check", tmp_path / name)
    assert f"{tmp_path}/{words}" in line
    assert any(remedy in line for remedy in REMEDIES), line


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (GOOD["question"], "train.jsonl:1: the problem"),
        ("what  IS 1+1?", "test.jsonl:1); remove them from the train file"),
    ],
)
def test_a_train_problem_in_the_test_is_refused(refused, tmp_path, asked, words):
    """With both places; case and spaces make no other question."""
    (tmp_path / "train.jsonl").write_bytes(lines(OTHER))
    write_json_lines(tmp_path / "test.jsonl", [{"question": asked, "answer": "2"}])
    line = refused("data", "check", tmp_path)
    assert "train.jsonl:1" in line
    assert "test.jsonl:1" in line
    assert "remove" in line


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        (["prepare.columns.answer=anwser"], "no row has a column anwser; did you mean 'answer'?"),
        (["prepare.kind=mth"], "lines: kind='mth'; expected one of math"),
        (["prepare.columns.messages=chat"], "no row has a column chat;"),
        (["prepare.dataset=gsm8k", "prepare.system=Hm"], "system is for dataset=lines, not gsm8k"),
    ],
)
def test_params_that_fit_no_data_are_refused(refused, tmp_path, sets, words):
    """A named column that is in no row; an unknown kind; settings without effect."""
    (tmp_path / "d.jsonl").write_bytes(lines(OTHER))
    given = [word for one in sets for word in ("--set", one)]
    target = [] if "prepare.dataset=gsm8k" in sets else [tmp_path / "d.jsonl"]
    assert words in refused("data", "check", *target, *given)
