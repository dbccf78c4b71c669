"""A task in one file through the whole loop: it runs, and what changes in the file runs the stages that depend on it."""

import os
import pathlib

import pytest
import yaml

from pipeline_lib.store import shards
from pipeline_lib.store.files import read_json_lines, write_json_lines
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.study.study import read_study
from pipeline_lib.telemetry import events_size, read_events
from tests.flows.smoke_runs import CLASSMATE, THREADS

OWN = pathlib.Path(__file__).parents[1] / "unit" / "own"
TASK, HOSTILE = OWN / "palindromes.py", OWN / "hostile.py"
SMOKE = ("--profile", "smoke", *THREADS, "--set", "bootstrap.steps=40")


def stages_that_worked(workspace, offset):
    return {e["stage"] for e in read_events(workspace, offset=offset) if e["event"] == "work"}


@pytest.mark.slow
def test_a_change_of_the_file_runs_what_depends_on_it(reasonloop, tmp_path):
    """A verifier verify and what follows, a reward train and what follows, a prompt everything, a comment nothing."""
    task, workspace = tmp_path / "task.py", tmp_path / "run"
    text = TASK.read_text("utf-8")

    def run():
        done = reasonloop("run", "--task", task, "--workspace", workspace, *SMOKE)
        assert done.returncode == 0, done.stderr + done.stdout

    task.write_text(text, "utf-8")
    run()
    verdicts = shards.read_table(Workspace(workspace).round_folders(1).verdicts)
    assert {row["status"] for row in verdicts} <= {"correct", "wrong"}
    everything = stages_that_worked(workspace, 0)
    assert {"prepare", "bootstrap", "sample", "verify", "build", "train", "evaluate"} <= everything
    ran = {}
    for name, old, new in [
        ("comment", '"""A task of one file."""', '"""A task."""  # of one file'),
        ("reward", "/ 100", "/ 50"),
        ("verifier", "text.strip() == answer", "text.strip() == str(answer)"),
    ]:
        assert old in text
        text = text.replace(old, new)
        task.write_text(text, "utf-8")
        before = events_size(workspace)
        run()
        ran[name] = stages_that_worked(workspace, before)
    assert ran["comment"] == {"report"}  # which is written by every run
    assert "train" in ran["reward"]
    assert ran["reward"].isdisjoint({"prepare", "bootstrap", "sample", "verify", "build"})
    assert "verify" in ran["verifier"]
    assert ran["verifier"].isdisjoint({"prepare", "bootstrap"})


def test_lines_are_judged_by_a_verifier_of_ones_own(called, refused, tmp_path):
    """Any JSON as gold; what the verifier prints is in neither output."""
    lines, output = tmp_path / "lines.jsonl", tmp_path / "verdicts.jsonl"
    texts = ["4", "5", "half", "raise", "print"]
    rows = [{"id": text, "kind": "own", "gold": "4", "text": text} for text in texts]
    write_json_lines(lines, [*rows, {"id": "math", "gold": 4, "text": "4"}])
    done = called("verify", lines, "--output", output, "--verifier", f"{HOSTILE}:verify")
    assert done.returncode == 0, done.stderr
    assert "xxx" not in done.stdout + done.stderr
    found = {row["id"]: (row["strict"], row["score"]) for row in read_json_lines(output)}
    assert found == {
        "4": (True, 1),
        "5": (False, 0),
        "half": (False, 0.5),
        "raise": (None, None),
        "print": (True, 1),
        "math": (True, 1),
    }
    assert "has no judge" in refused(
        "verify", lines, "--output", output, "--verifier", f"{HOSTILE}:judge"
    )


def test_dvc_watches_the_file_of_a_task(called, tmp_path, monkeypatch):
    """The digests that stages of dvc.yaml depend on change with the functions that they call, for no comment."""
    monkeypatch.chdir(tmp_path)
    pathlib.Path("params.yaml").write_text(
        "{prepare: {dataset: task.py}, train: {method: grpo}}\n", "utf-8"
    )

    def digests(text):
        pathlib.Path("task.py").write_text(text, "utf-8")
        done = called("stages", "loop", "--digests", "digests.yaml")
        assert done.returncode == 0, done.stderr
        return yaml.safe_load(pathlib.Path("digests.yaml").read_text("utf-8"))

    text = TASK.read_text("utf-8")
    before = digests(text)
    for old, new, stale in [
        ('"""A task of one file."""', '"""A task."""  # of one file', set()),
        ("half[::-1] if", "half if", {"prepare", "report"}),
        ("/ 100", "/ 50", {"train", "report"}),
        ("== answer", "== str(answer)", {"verify", "train", "evaluate", "report"}),
    ]:
        assert old in text
        after = digests(text.replace(old, new))
        assert {name for name in before if before[name] != after[name]} == stale


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed package whose entry point `mirrored` is the task, for this process and those that it starts."""
    site = tmp_path / "site"
    info = site / "palindromes-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "palindromes.py").write_bytes(TASK.read_bytes())
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: palindromes\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[reasonloop.tasks]\nmirrored = palindromes\n")
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)


@pytest.mark.usefixtures("package")
def test_a_task_of_an_installed_package(called):
    """By the name of its entry point: the same problems, prompts and verdicts as the file, with the same digests."""
    sizes = [f"--set=prepare.{one}_problems=30" for one in ("train", "test", "bootstrap")]
    for command in (("data", "check", "--task"), ("task", "check")):
        of_file, of_package = (called(*command, one, *sizes) for one in (TASK, "mirrored"))
        assert of_file.returncode == of_package.returncode == 0, of_file.stderr + of_package.stderr
        assert of_package.stdout.replace("mirrored:", f"{TASK}:") == of_file.stdout
    assert "texts judged, 0 not as expected" in of_file.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("system", "settings"),
    [
        ("pacore", (*SMOKE, "--set", "pacore.start=base", "--set", "pacore.train.method=grpo")),
        ("classmate", (*CLASSMATE, "--runner", "thread")),
    ],
)
def test_other_systems_take_a_task(reasonloop, tmp_path, system, settings):
    """Its problems are judged by its verifier, in the training and in the comparison."""
    done = reasonloop(system, "run", "--task", TASK, "--workspace", tmp_path, *settings)
    assert done.returncode == 0, done.stderr + done.stdout
    problems = next(tmp_path.glob("data/**/problems/test*"))
    rows = shards.read_table(problems) if problems.is_dir() else read_json_lines(problems)
    assert {row["kind"] for row in rows} == {"own"}
    study = read_study(tmp_path / "reports" / system / "metrics.json")
    assert study.points


def test_a_new_task_is_as_it_should_be(called, refused, tmp_path, monkeypatch):
    """Its texts are judged as it says; one that is not, or not at all, ends the check."""
    monkeypatch.chdir(tmp_path)
    few = [f"--set=prepare.{split}_problems=3" for split in ("train", "test", "bootstrap")]
    assert called("task", "new", "words").returncode == 0
    done = called("task", "check", "words.py", *few)
    assert done.returncode == 0, done.stderr
    assert "5 texts judged, 0 not as expected" in done.stdout
    text = pathlib.Path("words.py").read_text("utf-8")
    for new, said in (
        ("return None", "is not judged"),
        ("return True", "is right, expected wrong"),
    ):
        pathlib.Path("words.py").write_text(
            text.replace("def verify(", "def judged(")
            + f"\n\ndef verify(answer, text):\n    {new}\n"
        )
        assert said in refused("task", "check", "words.py", *few)
    for system in ("apr", "prr"):
        message = f"words.py: {system} run has problems of its own"
        assert message in refused(system, "run", "--task", "words.py")
    assert "--data DATA or --task FILE" in refused("apr", "rl", "m", "--output", "o")
