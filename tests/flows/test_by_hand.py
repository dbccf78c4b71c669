"""`sample`, `verify`, `build`, `train` and `evaluate` by hand: what a run of one round does."""

import json
import shutil

import pytest

from pipeline_lib.store import shards
from pipeline_lib.store.files import digest_file, read_json_lines
from pipeline_lib.store.workspace import Workspace

SMOKE = ("--profile", "smoke")


@pytest.fixture
def by_hand(reasonloop):
    """Runs a command at smoke size, which must succeed; returns its output."""

    def run(*arguments):
        done = reasonloop(*arguments, *SMOKE)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    return run


def plain(rows, names):
    return [{name: row[name] for name in names} for row in rows]


@pytest.mark.parametrize(
    "method",
    [
        "grpo",
        pytest.param("sft", marks=pytest.mark.slow),
        pytest.param("dpo", marks=pytest.mark.slow),
    ],
)
def test_the_files_and_weights_are_those_of_a_run(method, by_hand, finished_run, tmp_path):
    """Equal ids and texts of paths, verdicts and rows, and equal bytes of weights."""
    own = tmp_path / "run"
    if method == "grpo":
        own = finished_run
    else:
        shutil.copytree(finished_run, own)
        for stage in ("build", "train"):
            by_hand("stage", stage, "--workspace", own, "--set", f"train.method={method}")
    workspace = Workspace(own)
    base, folders = workspace.base, workspace.round_folders(1)
    paths, verdicts, rows = (
        tmp_path / name for name in ("paths.jsonl", "verdicts.jsonl", "rows.jsonl")
    )

    by_hand("sample", base, "--output", paths, "--split", "train")
    drawn = shards.read_table(folders.paths)
    lines = list(read_json_lines(paths))
    assert [(line["id"], line["text"]) for line in lines] == [
        (f"{row['problem_id']}#{row['index']}", row["text"]) for row in drawn
    ]

    by_hand("verify", paths, "--output", verdicts)
    names = ("status", "strict", "lenient", "extracted", "rule")
    assert plain(read_json_lines(verdicts), names) == plain(
        shards.read_table(folders.verdicts), names
    )

    by_hand(
        "build", paths, "--method", method, "--output", rows, "--model", base, "--worked-solutions"
    )
    tables = {rows: {"grpo": "problems"}.get(method, method)}
    if method == "grpo":
        tables[rows.with_suffix(".warm_start.jsonl")] = "warm_start"
    for file, table in tables.items():
        expected = shards.read_table(folders.traindata / table)
        assert expected
        written = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        texts = {"problem_id", "path_id", "prompt", "completion", "chosen", "rejected"} & {
            *expected[0]
        }
        assert plain(written, texts) == plain(expected, texts)

    policy = tmp_path / "policy"
    assert f"model: {policy}" in by_hand(
        "train", base, rows, "--method", method, "--output", policy
    )
    weights = workspace.policy(1, rounds=1) / "model.safetensors"
    assert digest_file(policy / "model.safetensors") == digest_file(weights)
    assert digest_file(weights) != digest_file(base / "model.safetensors")

    after = tmp_path / "after.jsonl"
    by_hand("sample", policy, "--output", after, "--num-paths", "8")
    assert len([*read_json_lines(after)]) == 24 * 8
    assert "No significant gain" in by_hand("evaluate", after, "--against", after)
