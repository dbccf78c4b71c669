"""`reasonloop pacore run` on a finished smoke run: stages, reuse, a kill, a missing policy."""

import pytest

from pipeline_lib.stages.pacore import PACORE
from pipeline_lib.storage import manifests
from pipeline_lib.storage.files import read_json
from pipeline_lib.storage.workspace import Workspace
from pipeline_lib.telemetry import events_size, read_events


@pytest.fixture(scope="module")
def settings(finished_run):
    return (
        *("--profile", "smoke", "--runner", "thread"),
        *("--set", f"pacore.source={finished_run}", "--set", "evaluate.resamples=200"),
    )


@pytest.fixture(scope="module")
def trained(reasonloop, settings, tmp_path_factory):
    """The workspace of an uninterrupted run."""
    root = tmp_path_factory.mktemp("pacore")
    done = reasonloop("pacore", "run", "--workspace", root, *settings)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "synthesizer: on 24 problems synthesis is" in done.stdout
    return root


def digests(root):
    folders = Workspace(root).pacore
    sealed = (folders.messages, folders.base, folders.model, folders.control)
    return [manifests.read_manifest(folder).digest for folder in sealed]


def test_three_models_are_compared(trained):
    """Policy, synthesizer and control on the same problems, each strategy against the votes of all three."""
    worked = [event["stage"] for event in read_events(trained) if event["event"] == "stage"]
    assert worked == [stage.name for stage in PACORE]
    results = read_json(trained / "reports" / "pacore" / "metrics.json")
    assert [result["model"] for result in results] == ["policy", "synthesizer", "control"]
    assert {result["num_problems"] for result in results} == {24}
    for result in results:
        assert {one["voters"] for one in result["against"]} == {"policy", "synthesizer", "control"}
    assert (trained / "reports" / "pacore" / "report.html").is_file()


def test_other_strategies_are_evaluated_with_the_same_models(reasonloop, settings, trained):
    """Finished stages are reused; trials of the former strategies are replaced."""
    before, offset = digests(trained), events_size(trained)
    changed = (*settings, "--set", "pacore.evaluate.rsa=null")
    done = reasonloop("pacore", "run", "--workspace", trained, *changed)
    assert done.returncode == 0, done.stderr
    work = [e["stage"] for e in read_events(trained, offset=offset) if e["event"] == "work"]
    assert set(work) == {"pacore-evaluate"}
    assert digests(trained) == before
    results = read_json(trained / "reports" / "pacore" / "metrics.json")
    assert "RSA " not in str(results)


def test_the_synthesizer_answers(reasonloop, trained):
    """`pacore solve` asks it in its compact form, over two rounds."""
    model = Workspace(trained).pacore.model
    done = reasonloop("pacore", "solve", model, "3,5=8", "--widths", "2")
    assert done.returncode == 0, done.stderr
    assert "round 2 of 2: 1 paths" in done.stdout


@pytest.mark.slow
@pytest.mark.fault("SIGKILL in the training of a synthesizer", "resumes")
def test_a_killed_run_continues(reasonloop, settings, trained, tmp_path):
    """SIGKILL after the first checkpoint: the same command ends with the same models."""
    command = ("pacore", "run", "--workspace", tmp_path, *settings)
    checkpoints = "models/.pacore.work/*/*/checkpoint-2"
    reasonloop.killed_when(lambda: any(tmp_path.glob(checkpoints)), *command)
    done = reasonloop(*command)
    assert done.returncode == 0, done.stderr
    assert digests(tmp_path) == digests(trained)


def test_without_a_policy_nothing_starts(called, tmp_path):
    """One line with the command that makes one, exit code 2."""
    done = called("pacore", "run", "--workspace", tmp_path / "empty")
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert "models/policy: there is none; finish `reasonloop run --workspace" in line


def test_summaries_of_a_policy_that_reads_no_words_are_refused(reasonloop, settings, trained):
    """Before any stage: one line with the compactions that are left, exit code 2."""
    done = reasonloop(
        "pacore", "run", "--workspace", trained, *settings, "--set", "pacore.compaction=model"
    )
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert "pacore.compaction=model: the model reads compact prompts" in line
