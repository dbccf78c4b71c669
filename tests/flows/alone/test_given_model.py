"""The loop on a given model with a chat template: imported, taught the format, drawn with shots, compared
at two temperatures and with itself untouched.
"""

import json

import pytest

from pipeline_lib.store import shards
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.study.study import read_study
from tests.unit.train.weights.gguf_files import tiny_llama, write_gguf

pytestmark = pytest.mark.slow
FOLDERS = [
    f"{policy}{temperature}"
    for policy in ("base", "control", "trained", "untouched", "untouched-few-shot")
    for temperature in ("", "-t0.2")
]


def write_questions(folder):
    """A data set in GSM8K's format with two possible answers, which a tiny model meets by chance."""
    folder.mkdir()
    for split, first in (("train", 100), ("test", 200)):
        rows = (
            {"question": f"Is {number} odd?", "answer": f"#### {1 + number % 2}"}
            for number in range(first, first + 50)
        )
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{split}.jsonl").write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def workspace(reasonloop, tmp_path_factory):
    """A finished run of profile `smol-smoke`."""
    folder = tmp_path_factory.mktemp("given")
    source = write_gguf(folder / "tiny.gguf", tiny_llama(context=1024, spread=0.05))
    done = reasonloop("import-model", source, "--output", folder / "model")
    assert done.returncode == 0, done.stderr
    write_questions(folder / "data")
    done = reasonloop(
        *("run", "--workspace", folder / "run", "--profile", "smol-smoke"),
        *("--set", f"bootstrap.model={folder / 'model'}"),
        *("--set", "prepare.dataset=gsm8k", "--set", f"prepare.source={folder / 'data'}"),
    )
    assert done.returncode == 0, done.stderr
    assert "Loading weights" not in done.stdout + done.stderr
    return Workspace(folder / "run")


def test_all_policies_are_compared_at_both_temperatures(workspace):
    """The paths of each, with their temperature; metrics, report and card have the further ones."""
    for folder in FOLDERS:
        rows = list(shards.iter_table(workspace.evaluation(folder).paths))
        assert len(rows) == 6 * 4
        found = {row["temperature"] for row in rows}
        assert found == {0.2 if folder.endswith("-t0.2") else 0.7}
    study = read_study(workspace.metrics)
    assert {one.name for one in study.arms if "paths" not in one.settings} == {
        f"{base} T={temperature}"
        for base in ("base", "control", "policy", "untouched", "untouched few-shot")
        for temperature in (".7", ".2")
    }
    for name in ("report.html", "model_card.md"):
        text = (workspace.reports / name).read_text("utf-8").replace("\N{NO-BREAK SPACE}", " ")
        assert "of control (T = .2)" in text
        assert "untouched few-shot" in text


def test_shots_are_in_no_prompt_of_training(workspace):
    """Drawn with one worked example before the question, trained without."""
    [asked, *_] = shards.iter_table(workspace.problems("train"))
    drawn = list(shards.iter_table(workspace.round_folders(1).paths))
    plain = list(shards.iter_table(workspace.evaluation("base").paths))
    templates = [{row["template"] for row in rows} for rows in (drawn, plain)]
    assert templates[0].isdisjoint(templates[1])
    [few_shot] = {
        row["template"]
        for row in shards.iter_table(workspace.evaluation("untouched-few-shot").paths)
    }
    assert templates[0] == {few_shot}
    rows = list(shards.iter_table(workspace.round_folders(1).traindata / "sft"))
    assert rows
    assert all(row["prompt"].count("<|im_start|>user") == 1 for row in rows), asked
