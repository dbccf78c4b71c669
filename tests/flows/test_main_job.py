"""The main job: output, files, records on the server, resume, refusals."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import httpx
import psutil
import pytest

from benchmarks.lib.repository import REPOSITORY
from flows.run.guard import RUN_TAG, workspace_tag
from pipeline_lib.engines.identity import model_identity
from pipeline_lib.store import manifests
from pipeline_lib.store.files import read_json_lines
from pipeline_lib.store.shards import iter_table
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.study.study import read_study
from pipeline_lib.telemetry import events_size, read_events
from pipeline_lib.train.weights.policies import LOG_NAME
from tests.faults.workspaces import digests
from tests.waiting import until

SMOKE = ("--profile", "smoke")


def work_done(root: pathlib.Path, *, offset: int = 0) -> list[tuple[str, int]]:
    events = read_events(root, offset=offset)
    return [(e["stage"], e["done"]) for e in events if e["event"] == "work"]


def test_summary_and_metrics(finished_run):
    """The run ends with its main figures on the console and in metrics.json."""
    printed = (finished_run / "stdout.txt").read_text("utf-8")
    study = read_study(finished_run / "reports" / "metrics.json")
    assert study == read_study(finished_run / "reports" / "loop" / "metrics.json")
    for policy in ("base", "control", "policy"):
        for k in (1, 4):
            found = study.point(policy, f"pass@{k}")
            assert 0 <= found.low <= found.value <= found.high <= 1
    head = study.headline
    assert (head.arm, head.reference, head.measure) == ("policy", "control", "pass@1")
    rest = study.point("policy", "pass@1").value - study.point("control", "pass@1").value
    assert head.value == pytest.approx(rest)
    assert head.low <= head.value <= head.high
    metrics = study.compute
    assert head.n == metrics["unseen_number_sets"] == 24
    stages = {"prepare", "bootstrap", "sample", "verify", "build", "train", "control", "evaluate"}
    assert stages <= metrics["seconds"].keys()
    # On threads the stages follow each other, but for `sample`, whose time lies within that of
    # `verify`; times of day are recorded to the millisecond.
    total = sum(metrics["seconds"][stage] for stage in stages - {"sample"})
    assert metrics["seconds"]["sample"] < metrics["seconds"]["verify"]
    assert metrics["seconds"]["total"] == pytest.approx(total, abs=0.02)
    for word in ("pass@1", "pass@4", "Prefect UI: http://127.0.0.1", "report.html", "train"):
        assert word in printed
    report = (finished_run / "reports" / "report.html").read_text("utf-8")
    assert "<html" in report
    assert "http://" not in report.replace("http://www.w3.org", "")


def test_the_control_processed_as_many_tokens_as_the_loop(finished_run):
    """Not fewer; three schedules of a few steps are rounded up. Seconds of both are recorded."""
    metrics = json.loads((finished_run / "reports" / "metrics.json").read_text("utf-8"))
    loop, control = metrics["compute"]["loop"], metrics["compute"]["control"]
    report = json.loads((finished_run / "models" / "control" / "control.json").read_text("utf-8"))
    planned = loop["trained_tokens"] + 0.6 * loop["drawn_tokens"]
    assert report["budget_tokens"] == pytest.approx(planned, rel=0.15)
    assert 1 <= control["trained_tokens"] / report["budget_tokens"] < 1.5
    assert control["drawn_tokens"] == 0
    assert min(loop["cpu_seconds"], control["cpu_seconds"]) > 0.1
    folders = Workspace(finished_run)
    drawn = manifests.read_manifest(folders.round_folders(1).paths).counts
    assert loop["drawn_tokens"] > drawn["prompt_tokens"] + drawn["completion_tokens"]


@pytest.mark.slow
def test_the_headline_mentions_a_missing_control(finished_run, reasonloop, tmp_path):
    """train.control=false: no control policy, no comparison, and a remark beside the claim."""
    shutil.copytree(finished_run, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "models" / "control")
    done = reasonloop(
        *("run", "--workspace", tmp_path / "run", *SMOKE, "--runner", "thread"),
        *("--set", "train.control=false"),
    )
    assert done.returncode == 0, done.stderr
    metrics = json.loads((tmp_path / "run" / "reports" / "metrics.json").read_text("utf-8"))
    assert metrics["compute"]["control"] is None
    assert "control" not in {one["name"] for one in metrics["arms"]}
    assert any("There was no control" in sentence for sentence in metrics["claims"])
    # Empty, since DVC requires every output of a stage.
    assert not list((tmp_path / "run" / "models" / "control").iterdir())


def test_everything_is_recorded_on_the_server(finished_run, prefect_server):
    """The flow runs, their subflows and the headline artifact are on the server, completed."""
    api = prefect_server.api_url
    body = {"flow_runs": {"name": {"like_": "post-training"}}, "limit": 50}
    runs = httpx.post(f"{api}/flow_runs/filter", json=body).json()
    own = [run for run in runs if run["parameters"]["run"]["root"] == str(finished_run)]
    parent = min(own, key=lambda run: run["start_time"])
    assert parent["state_type"] == "COMPLETED"
    assert set(parent["tags"]) == {
        RUN_TAG,
        "countdown",
        "grpo",
        "seed-7",
        workspace_tag(Workspace(finished_run)),
    }
    for kind, names in {
        "flow_runs": {"sample-and-verify-round-1", "evaluate-policies"},
        "task_runs": {
            "sample-round-1-shard-000",
            "verify-shard-003",
            "train-round-1",
            "write-report",
        },
    }.items():
        found = httpx.post(f"{api}/{kind}/filter", json={kind: {"name": {"any_": [*names]}}}).json()
        assert {run["name"] for run in found} == names
    assert httpx.get(f"{prefect_server.ui_url}/ui-settings").json()["api_url"] == api
    body = {"artifacts": {"key": {"like_": "headline"}}, "limit": 50}
    headline = httpx.post(f"{api}/artifacts/filter", json=body).json()[0]
    assert "pass@1" in headline["data"]


def test_a_second_run_repeats_no_work(finished_run, reasonloop):
    """The same command on a finished workspace repeats only the report."""
    before, begin = digests(finished_run), events_size(finished_run)
    done = reasonloop("run", "--workspace", finished_run, *SMOKE, "--runner", "thread")
    assert done.returncode == 0, done.stderr
    assert {stage for stage, _ in work_done(finished_run, offset=begin)} <= {"report"}
    assert digests(finished_run) == before


@pytest.mark.slow
def test_ray_and_threads_give_the_same_result(finished_run, reasonloop, tmp_path):
    """On real Ray, with other processes and another order of work, every digest is the same."""
    done = reasonloop("run", "--workspace", tmp_path, *SMOKE, "--runner", "ray")
    assert done.returncode == 0, done.stderr + done.stdout
    found, expected = digests(tmp_path), digests(finished_run)
    # The shared workspace holds what other tests have made, too.
    assert {f"{one}/manifest.json" for one in ("models/policy", "data/evaluation/result")} <= {
        *found
    }
    assert found == {name: expected.get(name) for name in found}
    early = [each.get("draw") for each in read_events(tmp_path) if each["event"] == "stage"]
    assert "without-control" in early  # drawn while the control is trained


@pytest.mark.slow
@pytest.mark.fault("SIGKILL in sampling", "resumes")
def test_a_run_killed_while_sampling_is_resumed(finished_run, reasonloop, tmp_path):
    """SIGKILL after the first shards: they are not sampled twice, and the result is the same."""
    for part in ("data/problems", "models/base"):
        shutil.copytree(finished_run / part, tmp_path / part)
    # One problem per shard and one worker: many shards, so that the kill falls between two.
    slow = ("--set", "sample.shard_size=1", "--set", "execution.workers=1")
    command = ("run", "--workspace", tmp_path, *SMOKE, "--runner", "thread", *slow)

    def sampled():
        return [done for stage, done in work_done(tmp_path) if stage == "sample"]

    reasonloop.killed_when(lambda: len(sampled()) >= 3, *command)
    before = sampled()
    assert 3 <= len(before) < 32
    begin = events_size(tmp_path)
    done = reasonloop(*command)
    assert done.returncode == 0, done.stderr
    after = [done for stage, done in work_done(tmp_path, offset=begin) if stage == "sample"]
    # A shard whose manifest was written in the moment of the kill may lack its event.
    assert not set(before) & set(after)
    assert 31 <= len(before) + len(after) <= 32
    unbroken = tmp_path / "unbroken"
    for part in ("data/problems", "models/base"):
        shutil.copytree(finished_run / part, unbroken / part)
    done = reasonloop(
        "stage", "sample", "--workspace", unbroken, *SMOKE, "--runner", "thread", *slow
    )
    assert done.returncode == 0, done.stderr
    broken_paths = Workspace(tmp_path).round_folders(1).paths
    unbroken_paths = Workspace(unbroken).round_folders(1).paths
    assert (
        manifests.read_manifest(broken_paths).digest
        == manifests.read_manifest(unbroken_paths).digest
    )


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow)],
)
@pytest.mark.fault("SIGTERM or SIGINT while Ray works", "cleaned up")
def test_signals_end_the_run_with_their_code(finished_run, reasonloop, tmp_path, number, code):
    """Interrupted while Ray works, the command leaves no process and names the signal."""
    for part in ("data/problems", "models/base"):
        shutil.copytree(finished_run / part, tmp_path / part)
    process = reasonloop.started(
        *("run", "--workspace", tmp_path, *SMOKE, "--set", "sample.shard_size=1")
    )
    until(lambda: work_done(tmp_path), process=process)
    family = psutil.Process(process.pid).children(recursive=True)
    assert family
    process.send_signal(number)
    assert process.wait(60) == code
    _, alive = psutil.wait_procs(family, timeout=15)
    assert not alive


def test_two_rounds(two_rounds):
    """The second round samples with the policy of the first; each round's data and model are kept."""
    workspace = Workspace(two_rounds)
    models = []
    for number in (1, 2):
        [first, *_] = iter_table(workspace.round_folders(number).paths)
        models.append(first["model"])
    assert models[0] == model_identity(str(workspace.base))
    assert models[1] == model_identity(str(workspace.policy(1, rounds=2)))
    assert models[0] != models[1]
    assert manifests.read_manifest(workspace.policy(2, rounds=2)).kind == "model"


ROUND = """
import pathlib, sys
from pipeline_lib.systems.loop.train import train
from pipeline_lib.params_file import load_params
from pipeline_lib.systems.stage import Run

params = load_params(profile="smoke", overrides=["rounds=3"])
train(Run(root=pathlib.Path(sys.argv[1]), params=params, round_number=int(sys.argv[2])))
"""


@pytest.mark.slow
def test_a_later_round_repeats_no_random_choice_of_the_first(finished_run, reasonloop, tmp_path):
    """From the policy and data of round 1, round 2 takes other rows at the first step of the warm
    start and draws other paths; round 1 reproduces the log of the finished run.
    """
    workspace = Workspace(tmp_path)
    shutil.copytree(finished_run / "data" / "problems", tmp_path / "data" / "problems")
    logs = [list(read_json_lines(finished_run / "models" / "policy" / LOG_NAME))]
    for number, start in ((1, workspace.base), (2, workspace.policy(1, rounds=3))):
        shutil.rmtree(start, ignore_errors=True)
        shutil.copytree(finished_run / "models" / "base", start)
        traindata = workspace.round_folders(number).traindata
        shutil.copytree(finished_run / "data" / "traindata", traindata)
        # In a process with the kernels of the finished run.
        command = [sys.executable, "-c", ROUND, str(tmp_path), str(number)]
        subprocess.run(command, cwd=REPOSITORY, env=reasonloop.environment, check=True)
        logs.append(list(read_json_lines(workspace.policy(number, rounds=3) / LOG_NAME)))
    finished, first, second = logs
    assert first == finished
    assert first[0]["loss"] != second[0]["loss"]
    assert [line.get("mean_tokens") for line in first] != [
        line.get("mean_tokens") for line in second
    ]


def test_policies_are_evaluated_on_paths_of_equal_seeds(finished_run):
    """24 problems of 8 paths: the policies have the same seed for each path; seeds differ between the
    paths of a policy and from those of training.
    """
    workspace = Workspace(finished_run)
    policies = ("base", "control", "trained")
    base, control, trained = (list(iter_table(workspace.evaluation(p).paths)) for p in policies)
    assert len({rows[0]["model"] for rows in (base, control, trained)}) == 3

    def drawn(rows):
        return [(row["problem_id"], row["index"], row["seed"]) for row in rows]

    assert drawn(base) == drawn(control) == drawn(trained)
    seeds = {row["seed"] for row in base}
    assert len(seeds) == 24 * 8
    assert not seeds & {row["seed"] for row in iter_table(workspace.round_folders(1).paths)}


@pytest.mark.fault("second run on a workspace in use", "refused")
def test_a_concurrent_run_is_refused(finished_run, reasonloop):
    """A workspace that another process holds is not changed; one line names the process."""
    with Workspace(finished_run).lease():
        done = reasonloop("run", "--workspace", finished_run, *SMOKE)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert f"process {os.getpid()}" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "train.learning_rate=1"], "unknown key 'train.learning_rate'"),
        (["--set", "train.method=grpo", "--set", "train.group_size=1"], "GRPO needs at least 2"),
        (["--set", "train.lr=-1"], "train.lr"),
        (["--set", "prepare.dataset=gsm8k", "--set", "prepare.source=/no/such"], "/no/such"),
        (["--engine", "url", "--set", "serve.url=http://127.0.0.1:9/v1"], "serve.engine=url"),
        (["--profile", "no-such"], "no such profile"),
        (["--params", "no-such.yaml"], "no-such.yaml"),
    ],
)
def test_bad_input_is_one_line(refused, tmp_path, arguments, words):
    """One line with problem and place, exit code 2, no computation."""
    assert words in refused("run", "--workspace", tmp_path, "--runner", "thread", *arguments)
    assert not (tmp_path / "data").exists()
    assert not (tmp_path / "models").exists()


@pytest.mark.fault("data file cut short", "refused")
def test_truncated_data_is_refused(refused, tmp_path):
    """A JSON-lines file that ends within a line is named with the line's number."""
    folder = tmp_path / "gsm8k"
    folder.mkdir()
    row = json.dumps({"question": "1+1?", "answer": "#### 2"})
    (folder / "train.jsonl").write_text(f"{row}\n{row[:20]}", encoding="utf-8")
    (folder / "test.jsonl").write_text(f"{row}\n", encoding="utf-8")
    sets = ("--set", "prepare.dataset=gsm8k", "--set", f"prepare.source={folder}")
    line = refused("run", "--workspace", tmp_path / "w", "--runner", "thread", *sets)
    assert "train.jsonl:2" in line
