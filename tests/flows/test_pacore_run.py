"""`reasonloop pacore run` on a finished smoke run: stages, reuse, a kill, a missing policy."""

import itertools
import shutil

import pytest

from pipeline_lib.store import manifests, shards
from pipeline_lib.store.files import read_json, read_json_lines
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.study.study import read_study
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
    folder = pacore_run / "reports" / "pacore"
    study = read_study(folder / "metrics.json")
    models = {"policy", "synthesizer", "control"}
    settings = {one.name: one.settings for one in study.arms}
    pairs = {
        (settings[one.arm]["model"], settings[one.reference]["model"]) for one in study.differences
    }
    assert pairs == set(itertools.product(models, repeat=2))
    assert {one.n for one in study.differences} == {24}
    assert study.headline.arm == "rounds 2,1 model=synthesizer"
    assert read_json(folder / "summary.json")["gain"] == study.headline.value
    assert (folder / "report.html").read_text("utf-8").count("<img ") == 3 * len(models)


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
    study = read_study(copy / "reports" / "pacore" / "metrics.json")
    assert not any(one.name.startswith("RSA") for one in study.arms)


def test_the_synthesizer_answers(reasonloop, pacore_run):
    """`pacore solve` asks it in its compact form, over two rounds."""
    model = Workspace(pacore_run).pacore.model
    done = reasonloop("pacore", "solve", model, "3,5=8", "--set", "pacore.widths=[2]")
    assert done.returncode == 0, done.stderr
    assert "round 2 of 2: 1 paths" in done.stdout


def test_one_command_draws_trains_and_evaluates(reasonloop, tmp_path):
    """Without a finished run: paths of the train problems, PPO on branches of the policy, the test problems.

    No test problem is in the cache, in an episode or in the record of a training.
    """
    settings = (*smoke_runs.THREADS, "--profile", "smoke", "--set", "pacore.start=base")
    online = ("--set", "pacore.train.method=ppo", "--set", "pacore.train.branches=drawn")
    done = reasonloop("pacore", "run", "--workspace", tmp_path, *settings, *online)
    assert done.returncode == 0, done.stderr + done.stdout
    folders = Workspace(tmp_path)
    asked = {
        split: {row["id"] for row in shards.iter_table(folders.problems(split))}
        for split in ("train", "test")
    }
    assert not asked["train"] & asked["test"]
    cached = {row["problem_id"] for row in shards.iter_table(folders.pacore.messages)}
    episodes = read_json_lines(folders.pacore.model.with_name("pacore.episodes.jsonl"))
    assert {row["problem_id"] for row in episodes} <= cached == asked["train"]
    log = read_json_lines(folders.pacore.model / "training_log.jsonl")
    assert [row["phase"] for row in log if row.get("branch_tokens")] == ["ppo"] * 4
    study = read_study(folders.pacore.reports / "metrics.json")
    assert {one.num_seen for one in study.arms} == {0}
    attempts = shards.iter_table(folders.pacore.reports / "attempts")
    assert {row["problem_id"] for row in attempts} == asked["test"]


@pytest.mark.slow
def test_from_scratch_without_a_run(reasonloop, tmp_path):
    """Problems of locks, model, control and rival; gates come before comparisons; a second run trains nothing."""
    settings = ("--profile", "smoke", *smoke_runs.THREADS, "--set", "pacore.start=scratch")
    names = ("evaluate.greedy", "evaluate.other_references", "scratch.retries")
    more = [word for name in names for word in ("--set", f"pacore.{name}=true")]
    command = ("pacore", "run", "--workspace", tmp_path, *settings, *more)
    done = reasonloop(*command)
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stdout.index("right parts taken over") < done.stdout.index("best vote")
    study = read_study(tmp_path / "reports" / "pacore" / "metrics.json")
    bases = {one.base for one in study.arms}
    assert {"greedy", "part vote", "stitched", "other references 2,1"} <= bases
    assert {"serial retry", "parallel retry"} <= bases
    models = {one.settings["model"] for one in study.arms}
    assert models == {"synthesizer", "control", "retries"}
    assert {one.num_seen for one in study.arms} == {0}
    offset = events_size(tmp_path)
    assert reasonloop(*command).returncode == 0
    worked = [one["stage"] for one in read_events(tmp_path, offset=offset) if "total" in one]
    assert {*worked} == {"pacore-evaluate"}


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
    done = called(
        "pacore", "run", "--workspace", tmp_path / "empty", "--set", "pacore.start=policy"
    )
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
