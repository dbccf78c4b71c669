"""`reasonloop prr` on models: synthetic task, training, evaluation and pictures, as a user runs them."""

import re
import subprocess
import sys

import pytest

from flows.cli.app import main
from pipeline_lib.store.manifests import read_manifest
from pipeline_lib.study.study import read_study
from tests.unit.systems.prr.sample_puzzles import write_combined

TINY = """
prr:
  data: {task: sudoku4-two, train_puzzles: 24, test_examples: 10}
  model: {width: 16, heads: 2, hidden_multiple: 8, num_branches: 3, steps: 2}
  train: {steps: 4, batch_size: 8, checkpoint_every: 2, log_every: 1, evaluate_every: 2}
  evaluate: {batch_size: 4, pictures: 2}
"""
PROFILE = ("--profile", "tiny.yaml")


@pytest.fixture
def reasonloop(capsys, tmp_path, monkeypatch):
    """The command in this process, on a tiny task: exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(TINY, encoding="utf-8")

    def call(line):
        with pytest.raises(SystemExit) as stopped:
            main(["prr", *line.split(), *([] if "build-arc" in line else PROFILE)])
        shown = capsys.readouterr()
        return stopped.value.code, shown.out, shown.err

    return call


def test_from_a_synthetic_task_to_pictures(reasonloop, tmp_path):
    """Four commands; metrics are of the ten examples, without the padding of the last batch."""
    assert reasonloop("build-synthetic --output two")[::2] == (0, "")
    assert reasonloop("train two --output model")[::2] == (0, "")
    code, shown, error = reasonloop("evaluate model --data two --output found")
    assert (code, error) == (0, "")
    assert "oracle (upper bound)" in shown
    assert "solutions found" in shown
    study = read_study(tmp_path / "found" / "metrics.json")
    assert study.arms[0].settings == {"model": "model", "branches": 3, "core passes": 6.0}
    assert study.point("scorer", "accuracy").n == 10
    assert len(list((tmp_path / "found" / "pictures").glob("*.svg"))) == 2
    page = (tmp_path / "found" / "report.html").read_text("utf-8")
    for curve in ("oracle exact", "scorer exact", "scorer picks lowest loss", "diversity"):
        assert f"{curve}: 4 steps from" in page
    assert "test scorer exact: 2 steps from" in page
    code, shown, error = reasonloop("show model --data two --output drawn --examples 3")
    assert (code, error) == (0, "")
    page = (tmp_path / "drawn" / "report.html").read_text("utf-8")
    assert page.count("data:image/svg+xml") == 3


def test_a_control_is_evaluated_beside(reasonloop, tmp_path):
    """A model of one branch, named by an option, is what the scorer is compared with."""
    reasonloop("build-synthetic --output two")
    assert reasonloop("train two --output model")[0] == 0
    assert reasonloop("train two --output one --set prr.model.num_branches=1")[0] == 0
    line = "evaluate model --data two --control one --output found"
    code, shown, error = reasonloop(line)
    assert (code, error) == (0, "")
    assert "one branch" in shown
    headline = read_study(tmp_path / "found" / "metrics.json").headline
    assert headline is not None
    assert (headline.arm, headline.reference, headline.n) == ("scorer", "one branch", 10)


@pytest.mark.parametrize("secret", [("evaluation",), ()])
def test_an_arc_evaluation_has_a_submission(reasonloop, tmp_path, secret):
    """With unknown test outputs it has no score; with known ones the score is printed and written."""
    write_combined(tmp_path / "kaggle", secret=secret)
    assert reasonloop("build-arc kaggle/arc-agi --output arc --num-aug 1 --max-side 5")[0] == 0
    assert reasonloop("train arc --output model")[::2] == (0, "")
    code, shown, error = reasonloop("evaluate model --data arc --output found")
    assert (code, error) == (0, "")
    assert (tmp_path / "found" / "submission.json").is_file()
    if secret:
        assert "the answer is secret  4" in shown
        assert "The test outputs are secret" in shown
        assert "%" not in shown
    else:
        study = read_study(tmp_path / "found" / "metrics.json")
        score = study.compute["arc"]["submission"]["ARC Prize score"]
        assert re.search(rf"submission: ARC Prize score +{score:g} ", shown)


def test_a_training_resumes_after_its_time_limit(reasonloop):
    """With no time left: exit code 3 after each step, and a message to run the same command again."""
    reasonloop("build-synthetic --output two")
    for step in (1, 2, 3):
        code, _, error = reasonloop("train two --output model --minutes 0.000001")
        assert code == 3
        assert f"step {step} of 4" in error
    code, shown, _ = reasonloop("train two --output model --minutes 0.000001")
    assert code == 0
    assert "4 steps" in shown


@pytest.mark.slow
def test_slices_of_two_processes_go_on_to_the_end(reasonloop, tmp_path):
    """Exit code 3 and one message after each of two steps but the last; weights are those of an unbroken training."""
    reasonloop("build-synthetic --output two")

    def train(*more):
        command = ["prr", "train", "two", *PROFILE, "--set", "prr.train.steps=2", *more]
        done = subprocess.run(
            [sys.executable, "-m", "flows.cli", *command, "--set", "prr.train.processes=2"],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    code, _, error = train("--output", "sliced", "--minutes", "0.000001")
    assert (code, error.count("\n")) == (3, 1), error
    assert "step 1 of 2: time limit reached" in error
    code, shown, error = train("--output", "sliced", "--minutes", "0.000001")
    assert (code, shown.count("2 steps"), error) == (0, 1, "")
    code, shown, error = train("--output", "whole")
    assert (code, shown.count("2 steps"), error) == (0, 1, "")
    digests = [read_manifest(tmp_path / name).digest for name in ("sliced", "whole")]
    assert digests[0] == digests[1]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("train nowhere --output model", "nowhere: no such folder"),
        ("train two --output two", "holds other files"),
        ("train two --output model --set prr.train.batch_size=0", "prr.train.batch_size"),
        ("train two --output model --set execution.report_to=[bells]", "bells is unknown"),
        (
            "train two --output model --set execution.run_name=a/b",
            "execution.run_name: String should",
        ),
        ("train two --output model --processes 2", "is now --set prr.train.processes=2"),
        (
            "run --workspace work --runner thread --set prr.train.processes=2",
            "a training of 2 processes runs on Ray",
        ),
        ("train two --output model --minutes nan", "--minutes"),
        ("evaluate nowhere --data two --output found", "no latent model"),
        ("evaluate model --control nowhere --data two --output found", "no latent model"),
        ("evaluate model --control model --data two --output found", "3 branches; the control"),
        ("evaluate model model --data two --output found", "--ensemble-checkpoints"),
        ("evaluate model --data two --output found --set prr.evaluate.rollouts=2", "set noise"),
        (
            "evaluate model --data two --output found --set prr.evaluate.voters=picked",
            "voters: Input should be 'all', 'scorer' or 'confidence' (got 'picked')",
        ),
        ("build-synthetic --output other --set prr.data.task=folder", "go together"),
    ],
)
def test_bad_input_is_one_line(reasonloop, line, words):
    """Problem, place and remedy in one line, exit code 2, and no file is written."""
    reasonloop("build-synthetic --output two")
    if "model" in line.split()[1:]:
        assert reasonloop("train two --output model")[0] == 0
    code, shown, error = reasonloop(line)
    assert code == 2
    assert words in error
    assert len(error.splitlines()) == 1
    assert shown.strip() == ""
