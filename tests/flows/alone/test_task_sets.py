"""Task sets of reasoning-gym and of verifiers through the whole loop; a set of two turns played against our server."""

import json
import pathlib
import re
import subprocess

import pytest

from benchmarks.lib.repository import REPOSITORY
from pipeline_lib.params.paths import BootstrapParams
from pipeline_lib.store import shards
from pipeline_lib.store.files import read_json, read_json_lines
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.train.bootstrap import make_base_policy
from tests.flows.smoke_runs import THREADS
from tests.unit.own.tasks_environment import SETS, TASKS, environment_with, needs_tasks

SETTINGS = ("verify.own.timeout_s=60", "prepare.train_problems=24", "prepare.test_problems=12")
SMALL = ("--profile", "smoke", *THREADS, *(word for one in SETTINGS for word in ("--set", one)))
FILLED = {
    'raise NotImplementedError("Score the rollout and return a float (e.g. in [0, 1]).")': (
        "return float(len(trace.last_reply) % 2 == self.data.odd)"
    ),
    'such as a reference answer."""\n': 'such as a reference answer."""\n\n    odd: bool = False\n',
    "num_tasks: int = 5": "num_tasks: int = 48",
}

pytestmark = [needs_tasks, pytest.mark.slow]


@pytest.fixture(scope="module")
def chat_model(tmp_path_factory) -> pathlib.Path:
    """A small Llama with a chat template, which replies by one to six digits."""
    folder = tmp_path_factory.mktemp("model") / "chat"
    params = BootstrapParams(hidden_size=32, num_layers=1, num_heads=2, steps=150, batch_size=16)
    questions = [f"2*3=6\n{one},7=42\n" for one in "2367"]
    asked = [*questions, *(f"{one}66\n6*7=42\n" for one in questions)]
    rows = [{"prompt": one, "completion": "6" * size} for one in asked for size in range(1, 7)]
    make_base_policy(rows, folder, params=params, seed=7, key="")
    template = "{% for message in messages %}{{ message.content }}\n{% endfor %}"
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    return folder


@pytest.fixture
def command(reasonloop, tmp_path):
    """The command with an environment of its own for task sets, with further modules: it must succeed."""
    environment = environment_with(tmp_path / "environment", SETS, tmp_path / "even_length")

    def run(*arguments):
        variables = {**reasonloop.environment, "REASONLOOP_TASKS": str(environment)}
        done = subprocess.run(
            reasonloop.argv(*arguments),
            check=False,
            env=variables,
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr + done.stdout

    return run


def test_a_mixture_of_reasoning_gym(reasonloop, tmp_path):
    """Trained on it, evaluated on each of its data sets."""
    mixture = "{count_bits: 1, gcd: {weight: 1, config: {max_value: 50}}}"
    sets = "[{dataset: gym:count_bits, problems: 6}, {dataset: gym:gcd, problems: 6}]"
    done = reasonloop(
        "run", "--workspace", tmp_path, *SMALL, "--set", "prepare.dataset=gym",
        "--set", f"prepare.gym={mixture}", "--set", f"evaluate.sets={sets}", "--set", "bootstrap.steps=300",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    verdicts = shards.read_table(Workspace(tmp_path).round_folders(1).verdicts)
    assert {row["status"] for row in verdicts} <= {"correct", "wrong", "unparsed"}
    study = read_json(tmp_path / "reports" / "metrics.json")
    assert {one["set"] for one in study["points"]} >= {"gym:count_bits", "gym:gcd"}


def test_a_set_by_the_template_of_verifiers(command, chat_model, tmp_path):
    """Made by vf-init, filled in, trained on."""
    subprocess.run(
        [TASKS / "bin" / "vf-init", "even-length", "--path", tmp_path],
        check=True,
        capture_output=True,
    )
    file = tmp_path / "even_length" / "even_length" / "taskset.py"
    text = file.read_text("utf-8")
    for old, new in FILLED.items():
        assert old in text
        text = text.replace(old, new)
    body = text.index("        raise NotImplementedError(\n")
    made = "EvenLengthTask(EvenLengthData(prompt=f'2,3,{i}=42', odd=i % 2), self.config.task)"
    text = f"{text[:body]}        return [{made} for i in range(self.config.num_tasks)]\n"
    file.write_text(text, "utf-8")
    workspace = tmp_path / "run"
    command(
        "run", "--workspace", workspace, *SMALL, "--set", "prepare.dataset=verifiers:even-length",
        "--set", f"bootstrap.model={chat_model}", "--set", "train.control=false",
    )  # fmt: skip
    verdicts = shards.read_table(Workspace(workspace).round_folders(1).verdicts)
    assert {row["status"] for row in verdicts} == {"correct", "wrong"}
    assert (workspace / "models" / "policy" / "config.json").is_file()


def test_two_turns(serve, command, chat_model, tmp_path):
    """vf-eval plays them, the traces are read back with the same rewards, and the right ones are trained on."""
    serving = serve(
        *("serve", chat_model, "--engine", "embedded", "--port", "19400", "--workspace", tmp_path)
    )
    text = "\n".join(serving.lines)
    url, name = re.search(r"base URL: (\S+)", text)[1], re.search(r"model: +(\S+)", text)[1]
    play = "from verifiers.v1.cli.eval.main import main; main()"
    options = [
        *("-m", name, "--client.base-url", url, "--client.api-key-var", "NO_KEY", "-r", "4"),
        *("--sampling.max-tokens", "24", "--env.agent.runtime.type", "subprocess"),
        *("--no-push", "--no-rich", "-o", str(tmp_path / "played")),
    ]
    subprocess.run(
        [tmp_path / "environment" / "bin" / "python", "-c", play, "two-turns", *options],
        check=True,
        capture_output=True,
        env={"HOME": str(tmp_path / "home"), "PATH": ""},
    )
    [traces] = (tmp_path / "played").glob("*/traces.jsonl")
    out = tmp_path / "imported"
    limits = ("--set", "evaluate.resamples=100", "--set", "verify.own.timeout_s=60")
    command("import-rollouts", traces, "--kind", "verifiers", "--output", out, *limits)
    lines = [*read_json_lines(out / "paths.jsonl")]
    assert [len(line["turns"]) for line in lines] == [4] * 16
    assert lines[0]["turns"][2][0] == "assistant"
    [agreed] = read_json(out / "metrics.json")["compute"]["agreement"]
    assert agreed["agreement"]["value"] == 1
    assert agreed["both right"] > 0
    assert agreed["both wrong"] > 0
    rows = tmp_path / "rows.jsonl"
    command(
        "build",
        out / "paths.jsonl",
        "--method",
        "sft",
        "--model",
        chat_model,
        "--output",
        rows,
        *limits,
    )
    built = [*read_json_lines(rows)]
    assert 0 < len(built) <= agreed["both right"]
    assert all(row["prompt"].endswith("6*7=42\n") for row in built)
    command(
        "train", chat_model, rows, "--method", "sft", "--output", tmp_path / "policy",
        "--set", "train.steps=4", "--set", "train.batch_size=4", "--set", "train.checkpoint_every=2",
    )  # fmt: skip
    assert json.loads((tmp_path / "policy" / "config.json").read_text("utf-8"))
