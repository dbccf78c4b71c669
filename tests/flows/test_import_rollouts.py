"""`reasonloop import-rollouts`: the command, and what its files are good for."""

import json
import pathlib

import pytest

from pipeline_lib.store.files import read_json, read_json_lines
from tests.unit.systems.loop.imports import other_tools
from tests.unit.systems.loop.imports.other_tools import ONE_OF_EACH, Said

HOSTILE = (
    "\x1b]0;owned\x07<script>alert(1)</script>\u202e",
    '__import__("os").system("touch owned")',
    "{{ 7*7 }} {% raw %}",
    "\ud800",
    r"\boxed{" * 400,
)


@pytest.fixture
def steps(tmp_path) -> list[pathlib.Path]:
    """Two steps of verl on 40 problems, of which the first solves 10 and the second 30; all rewards are right."""
    problems = [(f"What is {n}+1?", str(n + 1)) for n in range(40)]
    paths = []
    for step, solved in ((1, 10), (2, 30)):
        texts = [
            Said(question, gold, f"\\boxed{{{gold if n < solved else 0}}}", float(n < solved))
            for n, (question, gold) in enumerate(problems)
        ]
        paths.append(other_tools.write_verl(tmp_path / f"{step}.jsonl", texts * 2, step=step))
    return paths


def test_imported_paths_are_lines_of_verify_and_evaluate(called, steps, tmp_path):
    """20 of 40 more are solved: +50 points in all three; agreement of 160 texts is whole."""
    out = tmp_path / "out"
    done = called("import-rollouts", *steps, "--output", out, "--set", "evaluate.resamples=500")
    assert done.returncode == 0, done.stderr
    assert "disagreements: 0" in done.stdout
    study = read_json(out / "metrics.json")
    assert study["compute"]["agreement"][0]["agreement"]["value"] == 1.0
    assert study["differences"][0]["value"] == pytest.approx(0.5)
    assert study["differences"][0]["finding"] == "gain"
    page = (out / "report.html").read_text("utf-8")
    assert "score agrees with our verdict on 100.0" in page.replace("\N{NO-BREAK SPACE}", " ")
    done = called("verify", out / "paths.jsonl", "--output", tmp_path / "verdicts.jsonl")
    assert done.returncode == 0, done.stderr
    assert sum(one["strict"] for one in read_json_lines(tmp_path / "verdicts.jsonl")) == 80
    before, after = (out / "paths" / f"step-{step}.jsonl" for step in (1, 2))
    small = ("--set", "evaluate.resamples=500", "--set", "evaluate.ks=[1,2]")
    done = called("evaluate", after, "--against", before, *small)
    assert "gains 50.0 points" in done.stdout
    # p and q are 0 or 1, so nothing is within problems; q - p is 1 for 20 of 40: variance 0.25 * 40 / 39.
    done = called("power", "--difference", "50", "--recorded", out, "--problems", "8", "--json")
    spread = json.loads(done.stdout)["spread"]
    assert (spread["between"], spread["within"]) == pytest.approx((0.25 * 40 / 39, 0.0))


def test_hostile_texts_are_data(called, tmp_path, monkeypatch):
    """They run nothing, do not steer the terminal, and are escaped in the report."""
    monkeypatch.chdir(tmp_path)
    texts = [ONE_OF_EACH[0], *(Said(text, "4", text, 1.0) for text in HOSTILE)]
    path = other_tools.write_verl(tmp_path / "1.jsonl", texts)
    done = called("import-rollouts", path, "--output", "out", "--set", "evaluate.resamples=100")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "{{ 7*7 }}" in page
    assert not (tmp_path / "owned").exists()
    kept = [one["text"] for one in read_json_lines(tmp_path / "out" / "disagreements.jsonl")]
    assert kept == list(HOSTILE)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["import-rollouts", "none.jsonl", "--output", "out"], "none.jsonl: no such file"),
        (["import-rollouts", "--output", "out"], "name at least one file"),
        (["import-rollouts", "a/b=c", "--output", "out"], "FILE or NAME=FILE"),
    ],
)
def test_bad_arguments_are_one_line(refused, tmp_path, monkeypatch, arguments, words):
    """Exit code 2, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    assert words in refused(*arguments)
    assert not any(tmp_path.iterdir())
