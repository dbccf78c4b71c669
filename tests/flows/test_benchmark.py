"""`reasonloop benchmark`, and a run that is evaluated on further sets: whole data sets, without a train split."""

import json
import shutil

import pytest

from pipeline_lib.store import manifests, shards
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.study.study import read_study
from tests.unit.problems.code_rows import livecodebench, write_rows

SMOKE = ("--profile", "smoke", "--set", "execution.runner=thread")
SIZES = {"aime24": 5, "gsm8k": 9}
SHARD = ("--set", "sample.shard_size=3")


@pytest.fixture(scope="module")
def data_sets(tmp_path_factory):
    """NAME=FOLDER of two small data sets without a train split."""
    root = tmp_path_factory.mktemp("sets")
    rows = {
        "aime24": [{"problem": f"What is {n}+1?", "answer": str(n + 1)} for n in range(5)],
        "gsm8k": [{"question": f"What is {n}+2?", "answer": f"#### {n + 2}"} for n in range(9)],
    }
    for name, own in rows.items():
        (root / name).mkdir()
        lines = [json.dumps(row) + "\n" for row in own]
        (root / name / "test.jsonl").write_text("".join(lines), "utf-8")
    return {name: root / name for name in SIZES}


def digests(root):
    tables = [root / "values", *(root / "data" / "evaluation").glob("*/policy/*")]
    return {table.relative_to(root): manifests.read_manifest(table).digest for table in tables}


def test_every_problem_is_counted_and_a_killed_benchmark_resumes(
    data_sets, finished_run, reasonloop, tmp_path
):
    """A kill behind the second shard of the second set: the rest is drawn, and all digests are those of one go."""
    named = ",".join(f"{name}={folder}" for name, folder in data_sets.items())
    model = Workspace(finished_run).base
    options = ("--dataset", named, "--k", "1,2", "--num-paths", "4", *SMOKE, *SHARD)

    whole, broken = tmp_path / "whole", tmp_path / "broken"
    done = reasonloop("benchmark", model, "--output", whole, *options)
    assert done.returncode == 0, done.stderr
    study = read_study(whole / "metrics.json")
    assert {one.set: one.n for one in study.points if one.measure == "pass@2"} == SIZES
    assert [claim.split(":")[0] for claim in study.claims] == [f"pass@1 on {one}" for one in SIZES]
    assert "pass@1 on aime24" in done.stdout
    assert (whole / "report.html").is_file()

    second = Workspace(broken).evaluation("gsm8k/policy").paths
    shard_manifests = [second / f"part-{index:05}.manifest.json" for index in range(2)]
    reasonloop.killed_when(
        lambda: all(one.exists() for one in shard_manifests),
        *("benchmark", model, "--output", broken, *options),
    )
    assert not (broken / "metrics.json").exists()
    kept = (second / "part-00000.parquet").stat().st_mtime_ns
    done = reasonloop("benchmark", model, "--output", broken, *options)
    assert done.returncode == 0, done.stderr
    assert (second / "part-00000.parquet").stat().st_mtime_ns == kept
    assert digests(broken) == digests(whole)


def test_functions_and_programs_of_some_days_are_judged(finished_run, reasonloop, tmp_path):
    """LiveCodeBench of two months: two methods and two programs, which a model of Countdown cannot write."""
    write_rows(tmp_path / "lcb" / "test6.jsonl", [row for row, *_ in livecodebench()])
    name, out = "livecodebench@2024-05-01..2024-06-30", tmp_path / "out"
    done = reasonloop(
        *("benchmark", Workspace(finished_run).base, "--dataset", f"{name}={tmp_path / 'lcb'}"),
        *("--output", out, "--k", "1", "--num-paths", "1", *SMOKE),
    )
    assert done.returncode == 0, done.stderr
    study = read_study(out / "metrics.json")
    assert {(one.set, one.n, one.value) for one in study.points if one.measure == "pass@1"} == {
        (name, 4, 0.0)
    }
    verdicts = shards.read_table(Workspace(out).evaluation(f"{name}/policy").verdicts)
    assert [one["lenient"] for one in verdicts] == [False] * 4
    problems = shards.read_table(Workspace(out).evaluation_problems(name))
    assert sorted(one["kind"] for one in problems) == ["code", "code", "program", "program"]


def test_a_run_is_evaluated_on_further_sets(data_sets, finished_run, reasonloop, tmp_path):
    """Base, control and policy on each of them, in metrics and report; the test split is not drawn again."""
    root = shutil.copytree(finished_run, tmp_path / "run")
    paths = Workspace(root).evaluation("trained").paths
    before = manifests.read_manifest(paths)
    sets = [{"dataset": name, "source": str(folder)} for name, folder in data_sets.items()]
    sets[1]["problems"] = 4
    for stage in ("evaluate", "report"):
        done = reasonloop(
            *("stage", stage, "--workspace", root, *SMOKE),
            *("--set", f"evaluate.sets={json.dumps(sets)}"),
        )
        assert done.returncode == 0, done.stderr
    assert manifests.read_manifest(paths) == before
    study = read_study(root / "reports" / "metrics.json")
    compared = {(one.arm, one.set): one.n for one in study.points if one.measure == "pass@1"}
    arms = ("base", "control", "policy")
    assert compared == {
        (arm, name): n for arm in arms for name, n in (("main", 24), ("aime24", 5), ("gsm8k", 4))
    }
    assert study.headline.set == "main"
    assert {one.set for one in study.differences if one.reference == "control"} == {
        *("main", "aime24", "gsm8k")
    }
    problems = shards.read_table(root / "reports" / "loop" / "problems")
    assert {row["set"] for row in problems} == {"main", "aime24", "gsm8k"}
    assert "gsm8k" in (root / "reports" / "report.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--dataset", "aime99"), "data set 'aime99' is unknown"),
        (("--dataset", "aime24="), "--dataset aime24=: give NAME"),
        (("--dataset", "aime"), "source of aime is not set"),
        (("--dataset", "aime=/absent"), "source /absent: no such folder"),
        (("--dataset", "gsm8k,gsm8k"), "each may be given once"),
        (("--dataset", "livecodebench"), "source of livecodebench is not set"),
        (("--dataset", "livecodebench@2024-05"), "days @2024-05: give two"),
        (("--dataset", "gsm8k", "--k", "1,0"), "--k 1,0: give different numbers from 1 on"),
        (("--dataset", "gsm8k", "--k", "1,64"), "pass@64 needs at least 64"),
    ],
)
def test_bad_input_is_one_line(options, complaint, refused, tmp_path):
    """Before anything is started."""
    assert complaint in refused("benchmark", "models/base", "--output", tmp_path / "out", *options)
