"""The commands on files, as a user calls them."""

import json
import subprocess
import sys

import pytest

ANSWERS = [
    {"id": "m1", "kind": "math", "gold": "1/2", "text": "thus \\boxed{0.5}"},
    {"id": "m2", "kind": "math", "gold": "18", "text": "The answer is 18."},
    {"id": "c1", "kind": "countdown", "numbers": [3, 5, 3], "target": 24, "text": "3+5=8\n8*3=24"},
    {"id": "c2", "kind": "countdown", "numbers": [5], "target": 10, "text": "5+5=10"},
    {
        "id": "p1",
        "kind": "code",
        "entry_point": "add",
        "tests": "assert add(1, 2) == 3",
        "text": "```python\ndef add(a, b):\n    return a + b\n```",
    },
    {
        "id": "p2",
        "kind": "code",
        "entry_point": "add",
        "tests": "def check(candidate):\n    assert candidate(1, 2) == 3\n",
        "text": "import os\ndef add(a, b):\n    os._exit(0)",
    },
]


@pytest.fixture
def answers(tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ANSWERS), encoding="utf-8")
    return path


def test_verify(reasonloop, answers, tmp_path):
    """One line per line, in order, with the keys of the contract; a forged exit earns nothing."""
    output = tmp_path / "verdicts.jsonl"
    done = reasonloop("verify", answers, "--output", output, "--workers", "2")
    assert done.returncode == 0, done.stderr
    verdicts = [json.loads(line) for line in output.read_text("utf-8").splitlines()]
    assert [v["id"] for v in verdicts] == [row["id"] for row in ANSWERS]
    keys = ["id", "status", "strict", "lenient", "extracted", "rule", "seconds"]
    assert all(list(v) == keys for v in verdicts)
    assert [v["strict"] for v in verdicts] == [True, False, True, False, True, False]
    assert [v["lenient"] for v in verdicts] == [True, True, True, False, True, False]
    assert verdicts[3]["status"] == "wrong"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"id": "a", "kind": "math", "gold": "1", "te', "answers.jsonl:7"),
        ('{"id": "a", "kind": "math", "text": "1"}', "gold"),
        ('{"id": "a", "kind": "poem", "gold": "1", "text": "1"}', "poem"),
    ],
)
def test_verify_refuses_a_bad_line(reasonloop, answers, tmp_path, line, words):
    """The file and the line are named, nothing is written, exit code 2."""
    with answers.open("a", encoding="utf-8") as stream:
        stream.write(line)
    output = tmp_path / "verdicts.jsonl"
    done = reasonloop("verify", answers, "--output", output)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.strip().count("\n") == 0
    assert not output.exists()


def test_sample_build_evaluate(finished_run, reasonloop, tmp_path):
    """Files go from one command to the next: paths, pairs, scores."""
    model, paths = finished_run / "models" / "policy", tmp_path / "paths.jsonl"
    smoke = ["--profile", "smoke"]
    done = reasonloop("sample", model, "--output", paths, "--num-paths", "8", *smoke)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in paths.read_text("utf-8").splitlines()]
    assert len(rows) == 24 * 8
    pairs = tmp_path / "pairs.jsonl"
    done = reasonloop("build", paths, "--method", "dpo", "--output", pairs, *smoke)
    assert done.returncode == 0, done.stderr
    built = [json.loads(line) for line in pairs.read_text("utf-8").splitlines()]
    assert built
    assert all(row["chosen"] != row["rejected"] and row["prompt"] for row in built)
    assert "GRPO" not in (tmp_path / "pairs.card.md").read_text("utf-8")
    done = reasonloop("evaluate", paths, "--against", paths, *smoke)
    assert done.returncode == 0, done.stderr
    assert "No significant gain" in done.stdout


def test_help_is_quick_and_has_examples(reasonloop):
    """Every command explains itself with an example, without importing the deep-learning stack."""
    for command in ("run", "stage", "sample", "verify", "build", "evaluate", "report", "doctor"):
        done = reasonloop(command, "--help")
        assert done.returncode == 0
        assert f"reasonloop {command}" in done.stdout
    assert "torch" not in modules_after("from flows import cli")
    assert "prefect" not in modules_after("from flows import cli, commands, console, doctor")


def modules_after(statement):
    code = f"{statement}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_doctor_names_the_sandbox_tier(reasonloop):
    """Each line has a finding; the tier in use is named."""
    done = reasonloop("doctor")
    assert "sandbox tier" in done.stdout
    assert "in use" in done.stdout
    assert "Prefect server" in done.stdout
