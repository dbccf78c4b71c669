"""Secrets of the environment are in nothing that a run, a server or Ray writes."""

import base64
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import pytest

from benchmarks.lib.repository import REPOSITORY
from tests.faults.workspaces import TINY

SECRETS = (
    # Read or removed by reasonloop.
    *("OPENAI_API_KEY", "REWARD_API_KEY", "VLLM_API_KEY"),
    *("REASONLOOP_WEBHOOK_URL", "REASONLOOP_SLACK_URL", "REASONLOOP_EMAIL_URL"),
    # Read by its libraries.
    *("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "WANDB_API_KEY", "COMET_API_KEY", "NEPTUNE_API_TOKEN"),
    *("MLFLOW_TRACKING_PASSWORD", "TRACKIO_TOKEN", "DVC_STUDIO_TOKEN", "GITHUB_TOKEN"),
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    *("AZURE_STORAGE_KEY", "GOOGLE_API_KEY", "PREFECT_API_KEY", "PREFECT_API_AUTH_STRING"),
)
_SECRET_NAME = re.compile(
    r"""["']([A-Z][A-Z0-9_]*_(?:API_KEY|KEY|TOKEN|SECRET|PASSWORD)|REASONLOOP_[A-Z]+_URL)["']"""
)


def canary(name: str) -> str:
    return f"canary0{name.replace('_', '').lower()}0q7x"


def forms(name: str) -> list[bytes]:
    """The canary of a variable as text, and in base64 at each of the three alignments."""
    text = canary(name).encode()
    encoded = (base64.b64encode(bytes(shift) + text)[4:-4] for shift in range(3))
    return [text, *encoded]


def found_in(folder: pathlib.Path) -> list[str]:
    """File and variable of each canary in the files of a folder, their names included."""
    wanted = {name: forms(name) for name in SECRETS}
    found = []
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes() + str(path).encode()
            found += [
                f"{path} {name}" for name in SECRETS if any(f in content for f in wanted[name])
            ]
    return found


class Canaries:
    """The command with a canary in each secret variable, and a folder for all that it writes."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        own = ("PREFECT", "RAY", "REASONLOOP_STATE")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(own)}
        places = {
            "HOME": "home",
            "REASONLOOP_STATE": "state",
            "PREFECT_HOME": "prefect",
            "RAY_TMPDIR": "ray",
            "TMPDIR": "tmp",
        }
        for place in places.values():
            (folder / place).mkdir()
        self.environment = {
            **kept,
            **{name: str(folder / place) for name, place in places.items()},
            **{name: canary(name) for name in SECRETS},
            "HF_HUB_OFFLINE": "1",
        }

    def argv(self, *arguments: object) -> list[str]:
        return [sys.executable, "-m", "flows.cli", *map(str, arguments)]

    def __call__(self, *arguments: object) -> int:
        """Run the command; its output is kept in the folder, under the command's name."""
        with (self.folder / f"{arguments[0]}.txt").open("ab") as output:
            return subprocess.run(
                self.argv(*arguments),
                cwd=REPOSITORY,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=280,
                check=False,
            ).returncode


@pytest.fixture(scope="module")
def canaries():
    """In a short folder, since Ray's sockets are below it; its server is stopped at the end."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="rl"))
    command = Canaries(folder)
    yield command
    command("server", "stop")
    shutil.rmtree(folder)


def test_the_search_finds_a_secret(tmp_path):
    """Also inside of base64, and in a file's name."""
    text = canary("HF_TOKEN")
    (tmp_path / "plain").write_text(f"key={text}")
    (tmp_path / "encoded").write_bytes(base64.b64encode(f"ab{text}cd".encode()))
    (tmp_path / text).touch()
    assert len(found_in(tmp_path)) == 3


def test_every_secret_variable_of_the_code_is_searched_for():
    """A new name in the code has to be added to the list above."""
    sources = (
        path
        for name in ("flows", "tasks", "pipeline_lib")
        for path in (REPOSITORY / name).rglob("*.py")
    )
    named = {name for path in sources for name in _SECRET_NAME.findall(path.read_text("utf-8"))}
    assert named <= set(SECRETS)


@pytest.mark.slow
def test_a_run_writes_no_secret(canaries):
    """A run on Ray, a failed stage and an unknown model: workspace, server's database and log, Ray's session,
    home folder and output hold no canary.
    """
    workspace = canaries.folder / "run"
    assert canaries("run", "--workspace", workspace, *TINY, "--runner", "ray") == 0
    assert canaries("stage", "build", "--workspace", canaries.folder / "empty", *TINY) != 0
    hub = ("--set", "bootstrap.model=owner/none")
    assert canaries("stage", "bootstrap", "--workspace", workspace, *TINY, *hub) != 0
    databases = list((canaries.folder / "state").rglob("*.db"))
    assert databases
    assert list((canaries.folder / "ray").rglob("*.log"))
    assert (workspace / "reports" / "report.html").is_file()
    assert found_in(canaries.folder) == []


@pytest.mark.slow
def test_a_served_model_writes_no_secret(canaries, unbroken):
    """A server and a client that sends the key, with an answer and with a refusal."""
    model = unbroken / "models" / "policy"
    serving = subprocess.Popen(
        canaries.argv("serve", model, "--workspace", canaries.folder / "served"),
        cwd=REPOSITORY,
        env=canaries.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    lines = []
    for line in serving.stdout:
        lines.append(line)
        if line.startswith("serving"):
            break
    try:
        url = next(line.split()[-1] for line in lines if line.startswith("base URL"))
        name = next(line.split()[-1] for line in lines if line.startswith("model:"))
        output = (
            "--output",
            canaries.folder / "paths.jsonl",
            "--num-paths",
            "2",
            "--problems",
            "4",
        )
        tokenizer = ("--set", f"serve.tokenizer={model}")  # the model has no chat template
        at = ("--set", "serve.engine=url", "--set", f"serve.url={url}", *tokenizer, *TINY)
        assert canaries("sample", name, *output, *at) == 0
        assert canaries("sample", "other", *output, *at) == 2
        nowhere = ("--set", "serve.engine=url", "--set", "serve.url=http://127.0.0.1:9/v1", *TINY)
        assert canaries("sample", name, *output, *nowhere) == 1
    finally:
        os.killpg(serving.pid, signal.SIGTERM)
        rest, _ = serving.communicate(timeout=60)
    (canaries.folder / "serving.txt").write_text("".join(lines) + rest)
    assert (canaries.folder / "paths.jsonl").is_file()
    assert found_in(canaries.folder) == []
