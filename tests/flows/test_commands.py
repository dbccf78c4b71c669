"""The commands on files of answers."""

import json
import pathlib
import subprocess
import sys
from dataclasses import replace

import pytest

from flows.cli.loop.lines import verify
from pipeline_lib.kinds.arc import ArcGold
from pipeline_lib.kinds.code import CodeGold
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.verify.lines import path_line, read_lines
from tests.answers import ANSWERS
from tests.unit.study.judged_groups import judged_group


@pytest.fixture
def answers(tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ANSWERS), encoding="utf-8")
    return path


def test_verify(reasonloop, answers, tmp_path):
    """One output line per input line, in order, with the documented keys; a forged exit scores 0."""
    output = tmp_path / "verdicts.jsonl"
    done = reasonloop("verify", answers, "--output", output, "--workers", "2")
    assert done.returncode == 0, done.stderr
    verdicts = [json.loads(line) for line in output.read_text("utf-8").splitlines()]
    assert [v["id"] for v in verdicts] == [row["id"] for row in ANSWERS]
    keys = ["id", "status", "strict", "lenient", "extracted", "rule", "score", "detail", "seconds"]
    assert all(list(v) == keys for v in verdicts)
    assert [v["strict"] for v in verdicts] == [True, False, True, False, True, False, True, False]
    assert [v["lenient"] for v in verdicts] == [True, True, True, False, True, True, True, False]
    assert verdicts[3]["status"] == "wrong"


@pytest.mark.parametrize(
    "gold",
    [
        MathGold(answer="1/2"),
        CountdownGold(numbers=(3, 5), target=8),
        CodeGold(entry_point="f", tests="assert f()"),
        ArcGold(output=((1, 2), (3, 4))),
    ],
    ids=lambda gold: type(gold).__name__,
)
def test_verify_reads_the_output_of_sample(tmp_path, gold):
    """A path's line has the gold of its problem, for every kind."""
    group = judged_group("p", "c")
    row = path_line(group.members[0].path, replace(group.problem, gold=gold))
    (tmp_path / "paths.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    (line,) = read_lines(tmp_path / "paths.jsonl")
    assert (line.gold, line.problem_id, line.text) == (gold, "p", "3+5=8")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"id": "a", "kind": "math", "gold": "1", "te', "answers.jsonl:9"),
        ('{"id": "a", "kind": "math", "text": "1"}', "gold"),
        ('{"id": "a", "kind": "poem", "gold": "1", "text": "1"}', "poem"),
    ],
)
def test_verify_refuses_a_bad_line(refused, answers, tmp_path, line, words):
    """The file and the line are named, nothing is written, exit code 2."""
    with answers.open("a", encoding="utf-8") as stream:
        stream.write(line)
    output = tmp_path / "verdicts.jsonl"
    assert words in refused("verify", answers, "--output", output)
    assert not output.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["verify", "answers.jsonl", "--output", "out.jsonl", "--workers", "0"],
        ["verify", "answers.jsonl", "--output", "answers.jsonl/out.jsonl"],
        ["build", "answers.jsonl", "--method", "sft", "--output", "answers.jsonl"],
        ["build", "answers.jsonl", "--method", "sft", "--output", "taken.jsonl"],
        ["sample", "model", "--output", "out.jsonl", "--num-paths", "0"],
        ["run", "--workspace", "answers.jsonl"],
    ],
)
def test_bad_arguments_are_one_line(refused, answers, tmp_path, monkeypatch, arguments):
    """They are refused with exit code 2 before any answer is judged, and no file changes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken.card.md").mkdir()
    before = answers.read_bytes()
    refused(*arguments)
    assert answers.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answers.jsonl", "taken.card.md"]


def test_an_error_of_the_file_system_is_one_line(refused, answers, tmp_path):
    """An invalid file name gives the system's message and exit code 1."""
    line = refused("verify", answers, "--output", tmp_path / ("x" * 300), code=1)
    assert "File name too long" in line


def test_evaluate_shows_finish_reasons_and_lengths(called, tmp_path):
    """Of 3 paths one failed; of the 2 drawn ones 1 was truncated; their mean is (5 + 9) / 2 = 7 tokens.

    The file limits k, not `evaluate.num_paths`.
    """
    ended = [("stop", 5, "\\boxed{7}"), ("length", 9, "so 3+4"), ("error", 0, None)]
    rows = [
        {
            "problem_id": "p",
            "gold": "7",
            "text": text,
            "finish_reason": reason,
            "completion_tokens": count,
        }
        for reason, count, text in ended
    ]
    paths = tmp_path / "paths.jsonl"
    paths.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    done = called("evaluate", paths, "--workers", "1", "--set", "evaluate.ks=[1,2,32]")
    assert "at most 2 scored paths of a problem, so no pass@k for k = [32]" in done.stdout
    assert "pass@2" in done.stdout
    assert "3 paths, 1 not scored; 50.0% truncated, 7.0 tokens each" in done.stdout


def test_arc_paths_are_scored_as_arc_prize_does(called, tmp_path):
    """Two puzzles, one of two test inputs solved in each by one of the first two paths: 50 %."""
    right, wrong = json.dumps([[1, 2]]), json.dumps([[2, 1]])
    answers = {
        "a/0": (wrong, right),
        "a/1": (wrong, wrong),
        "b/0": (right, wrong),
        "b/1": (wrong, "no grid"),
    }
    rows = [
        {"id": f"{name}-{index}", "problem_id": name, "kind": "arc", "gold": [[1, 2]], "text": text}
        for name, texts in answers.items()
        for index, text in enumerate(texts)
    ]
    paths = tmp_path / "paths.jsonl"
    paths.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    done = called("evaluate", paths, "--workers", "1", "--set", "evaluate.ks=[1,2]")
    assert "ARC Prize score: 50.0% of 2 puzzles" in done.stdout


def test_names_are_not_markup(tmp_path, monkeypatch, capsys):
    """Text that looks like a tag of rich, or is not valid Unicode, is printed as it is."""
    monkeypatch.chdir(tmp_path)
    row = {"id": "[/red]", "gold": "5", "text": "\ud800 The answer is 5.", "label": False}
    source = tmp_path / "in.jsonl"
    source.write_text(json.dumps(row), encoding="utf-8")
    verify(source, output=pathlib.Path("[/x].out"), workers=1, audit=True)
    shown = capsys.readouterr().out
    assert "disagreements: [/red]" in shown
    assert "\\ud800" in shown
    assert "verdicts: [/x].out" in shown


def test_a_command_imports_what_it_needs():
    """The root imports no command; commands on files neither Prefect nor torch; runs load statistics at their end."""
    heavy = {"pydantic", "prefect", "torch", "transformers", "pyarrow", "numpy", "scipy"}
    assert not heavy & modules_after("from flows.cli.app import build_app; build_app()")
    on_files = (
        "from flows.cli.loop import evaluate, lines, stages; from flows.cli.files import overlap;"
        "from flows.cli import power; from flows.cli.loop import rollouts;"
        "from pipeline_lib.study import power; from pipeline_lib.systems.loop.imports import comparison"
    )
    assert not {"prefect", "torch", "transformers", "ray"} & modules_after(on_files)
    runs = "import flows.cli.run, flows.cli.prr, flows.cli.pacore.train, flows.cli.classmate.probe"
    assert not {"scipy", "matplotlib", "torch"} & modules_after(runs)
    stage = (
        "from flows.cli import run; from flows import post_training; from flows.parallel.stages import StageRunner;"
        "from pipeline_lib.params.whole import Params; from pipeline_lib.systems import stage, table;"
        "own = stage.Run(root='.', params=Params());"
        "StageRunner(table.SYSTEMS['loop'], own).begin_beside('prepare')"
    )
    assert not {"torch", "transformers", "ray"} & modules_after(stage)


def modules_after(statement):
    code = f"{statement}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())
