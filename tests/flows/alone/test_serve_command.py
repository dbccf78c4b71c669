"""`reasonloop serve`."""

import pathlib
import shutil
import signal
import subprocess
import sys

import pytest

from pipeline_lib.params.paths import BootstrapParams
from pipeline_lib.train.bootstrap import save_blank_policy
from tests.unit.engines.launch.small_environment import small_environment


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> pathlib.Path:
    """A small Llama of random weights."""
    folder = tmp_path_factory.mktemp("model")
    params = BootstrapParams(hidden_size=16, num_layers=1, num_heads=2)
    save_blank_policy(folder, [{"prompt": "2,3,7=42\n", "completion": "2*3=6\n6*7=42"}], params)
    return folder


@pytest.fixture
def chat_model(model, tmp_path) -> pathlib.Path:
    """The small Llama with a chat template."""
    folder = tmp_path / "chat-model"
    shutil.copytree(model, folder)
    template = "{% for message in messages %}{{ message.content }}\n{% endfor %}"
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("kind", "route"),
    [("chat_model", "chat"), pytest.param("model", "completions", marks=pytest.mark.slow)],
)
def test_the_examples_can_be_copied(serve, request, tmp_path, kind, route):
    """The printed curl and Python examples draw from the real engine, by the chat route if the model has a
    template; Ctrl-C ends it with code 130.
    """
    model = request.getfixturevalue(kind)
    serving = serve(
        *("serve", model, "--engine", "embedded", "--port", "19100", "--workspace", tmp_path)
    )
    text = "\n".join(serving.lines)
    [curl] = [line for line in serving.lines if line.startswith("curl ")]
    code = text[text.index("from openai") : text.index("serving;")]
    assert f"/v1/{route}" in curl
    family = serving.family
    drawn = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert drawn.stdout
    if shutil.which("curl"):
        answer = subprocess.run(curl, shell=True, capture_output=True, text=True, check=True)
        assert '"completion_tokens"' in answer.stdout
    assert serving.end(signal.SIGINT) == (130, "")
    assert family
    assert not [process for process in family if process.is_running()]
    assert list((tmp_path / "logs").glob("embedded-*.log"))


def test_a_restart_is_reported_and_sigterm_ends_the_command(serve, model, tmp_path):
    """A line reports that the engine was killed. SIGTERM: code 143, and no process is left."""
    environment = small_environment(tmp_path / "environment")
    serving = serve(
        *("serve", model, "--engine", "vllm", "--port", "19200", "--workspace", tmp_path),
        *("--set", f"serve.environment={environment}"),
    )
    subreaper, server = serving.family
    server.kill()
    serving.wait_for("engine restarted: it was killed by signal 9")
    family = serving.family
    assert serving.end(signal.SIGTERM) == (143, "")
    assert not [process for process in [subreaper, *family] if process.is_running()]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["/nowhere"], "model /nowhere: no such folder"),
        (["MODEL", "--lora", "policy"], "--lora policy: give NAME=FOLDER"),
        (["MODEL", "--lora", "a=MODEL"], "adapter a: no rank can be read"),
        (["MODEL", "--engine", "url"], "url=null; engine=url needs the address"),
        (["MODEL", "--engine", "vllm", "--set", "serve.environment=/none"], "make serve-env"),
    ],
)
def test_bad_input_is_one_line(refused, model, tmp_path, arguments, message):
    """Exit code 2, before any process is started."""
    given = [word.replace("MODEL", str(model)) for word in arguments]
    assert message in refused("serve", *given, "--workspace", tmp_path)
