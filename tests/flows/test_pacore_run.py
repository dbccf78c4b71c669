"""`reasonloop pacore run` on a finished smoke run: stages, reuse, a kill, a missing policy."""

import shutil

import pytest

from pipeline_lib.store import manifests
from pipeline_lib.store.files import read_json
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.systems.pacore.stages import PACORE
from pipeline_lib.telemetry import events_size, read_events
from tests.flows import smoke_runs


@pytest.fixture
def settings(finished_run):
    return smoke_runs.pacore(finished_run)


def digests(root):
    folders = Workspace(root).pacore
    sealed = (folders.messages, folders.base, folders.model, folders.control)
    return [manifests.read_manifest(folder).digest for folder in sealed]


def test_three_models_are_compared(pacore_run):
    """Policy, synthesizer and control on the same problems, each strategy against the votes of all three."""
    worked = [event["stage"] for event in read_events(pacore_run) if event["event"] == "stage"]
    assert worked == [stage.name for stage in PACORE.stages]
    results = read_json(pacore_run / "reports" / "pacore" / "metrics.json")
    assert [result["model"] for result in results] == ["policy", "synthesizer", "control"]
    assert {result["num_problems"] for result in results} == {24}
    for result in results:
        assert {one["voters"] for one in result["against"]} == {"policy", "synthesizer", "control"}
    assert (pacore_run / "reports" / "pacore" / "report.html").is_file()


def test_other_strategies_are_evaluated_with_the_same_models(
    reasonloop, settings, pacore_run, tmp_path
):
    """Finished stages are reused; trials of the former strategies are replaced."""
    copy = shutil.copytree(pacore_run, tmp_path / "copy")
    before, offset = digests(copy), events_size(copy)
    changed = (*settings, "--set", "pacore.evaluate.rsa=null")
    done = reasonloop("pacore", "run", "--workspace", copy, *changed)
    assert done.returncode == 0, done.stderr
    work = [e["stage"] for e in read_events(copy, offset=offset) if e["event"] == "work"]
    assert set(work) == {"pacore-evaluate"}
    assert digests(copy) == before
    results = read_json(copy / "reports" / "pacore" / "metrics.json")
    assert "RSA " not in str(results)


def test_the_synthesizer_answers(reasonloop, pacore_run):
    """`pacore solve` asks it in its compact form, over two rounds."""
    model = Workspace(pacore_run).pacore.model
    done = reasonloop("pacore", "solve", model, "3,5=8", "--widths", "2")
    assert done.returncode == 0, done.stderr
    assert "round 2 of 2: 1 paths" in done.stdout


@pytest.mark.slow
@pytest.mark.fault("SIGKILL in the training of a synthesizer", "resumes")
def test_a_killed_run_continues(reasonloop, settings, pacore_run, tmp_path):
    """SIGKILL after the first checkpoint: the same command ends with the same models."""
    command = ("pacore", "run", "--workspace", tmp_path, *settings)
    checkpoints = "models/.pacore.work/*/*/checkpoint-2"
    reasonloop.killed_when(lambda: any(tmp_path.glob(checkpoints)), *command)
    done = reasonloop(*command)
    assert done.returncode == 0, done.stderr
    assert digests(tmp_path) == digests(pacore_run)


def test_without_a_policy_nothing_starts(called, tmp_path):
    """One line with the command that makes one, exit code 2."""
    done = called("pacore", "run", "--workspace", tmp_path / "empty")
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert "models/policy: there is none; finish `reasonloop run --workspace" in line


def test_summaries_of_a_policy_that_reads_no_words_are_refused(reasonloop, settings, pacore_run):
    """Before any stage: one line with the compactions that are left, exit code 2."""
    done = reasonloop(
        "pacore", "run", "--workspace", pacore_run, *settings, "--set", "pacore.compaction=model"
    )
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert "pacore.compaction=model: the model reads compact prompts" in line
