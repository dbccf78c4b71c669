"""`reasonloop export` on a finished run."""

import json

import pytest
from huggingface_hub import ModelCard
from inspect_ai.log import read_eval_log

from pipeline_lib.engines.identity import model_identity
from pipeline_lib.study.study import read_study
from pipeline_lib.systems.pacore.message_cache import read_cache

SMOKE = ("--profile", "smoke")


def test_export_of_paths_to_inspect(finished_run, called, tmp_path):
    """The logs have every judged path of all three policies: 24 problems x 8 paths each."""
    done = called("export", "inspect", "--workspace", finished_run, "--output", tmp_path, *SMOKE)
    assert done.returncode == 0, done.stderr
    assert f"inspect view --log-dir {tmp_path}" in done.stdout.replace("\n", "")
    for name in ("base", "control", "trained"):
        log = read_eval_log(tmp_path / f"{name}.eval")
        assert len(log.samples) == 24 * log.eval.config.epochs
        assert log.eval.dataset.name == "countdown"


def test_export_of_scores_to_lm_eval(finished_run, called, tmp_path):
    """One results file per policy, with the values of metrics.json."""
    study = read_study(finished_run / "reports" / "metrics.json")
    done = called("export", "lm-eval", "--workspace", finished_run, "--output", tmp_path, *SMOKE)
    assert done.returncode == 0, done.stderr
    for name, arm in {"base": "base", "control": "control", "trained": "policy"}.items():
        (target,) = (tmp_path / name).glob("results_*.json")
        scores = json.loads(target.read_text("utf-8"))["results"]["countdown"]
        assert scores["pass@1,strict"] == pytest.approx(study.point(arm, "pass@1").value)


def test_export_of_the_policy_with_its_card(finished_run, called, tmp_path):
    """The same weights, and the report's model card."""
    out = tmp_path / "published"
    done = called("export", "policy", "--workspace", finished_run, "--output", out, *SMOKE)
    assert done.returncode == 0, done.stderr
    assert model_identity(str(out)) == model_identity(str(finished_run / "models" / "policy"))
    card = (out / "README.md").read_text("utf-8")
    assert card == (finished_run / "reports" / "model_card.md").read_text("utf-8")
    assert ModelCard(card).data.eval_results
    assert str(finished_run) not in card


@pytest.mark.parametrize("kind", ["inspect", "lm-eval", "policy"])
def test_a_workspace_without_a_run_is_one_line(refused, tmp_path, kind):
    """Exit code 2, and the missing file is named."""
    line = refused("export", kind, "--workspace", tmp_path, "--output", tmp_path / "out")
    assert "manifest.json: no such file" in line


def test_export_of_paths_as_a_message_cache(called, tmp_path):
    """One line a question with the instruction, its answers and the gold; the file is a cache again."""
    line = {"problem_id": "p", "kind": "math", "question": "6 times 7?", "gold": "42"}
    source, output = tmp_path / "paths.jsonl", tmp_path / "cache.jsonl"
    texts = ("\\boxed{42}", None, "\\boxed{41}")
    source.write_text("".join(f"{json.dumps(line | {'text': text})}\n" for text in texts), "utf-8")
    assert "1 questions" in called("export", "pacore-cache", source, "--output", output).stdout
    [row] = [json.loads(text) for text in output.read_text("utf-8").splitlines()]
    assert row["responses"] == ["\\boxed{42}", "\\boxed{41}"]
    assert row["ground_truth"] == "42"
    assert row["conversation"][0]["content"].startswith("6 times 7?")
    assert len(read_cache(output, kind="countdown")) == 1
