"""The server as a process: start, end, error messages."""

import pathlib
import shutil
import socket
import subprocess
from contextlib import ExitStack

import httpx
import pytest
from transformers import MambaConfig, MambaForCausalLM

from pipeline_lib.engines.server.server import main
from tests.unit.engines.served_model import server_process

LONG = {"model": "served", "prompt": "a secret question", "max_tokens": 480, "n": 512}

# Unusable weights, which fail at the first step.
BROKEN = """
import os, sys, torch
from pipeline_lib.engines.server import server
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine

class Broken(EmbeddedEngine):
    def open_batch(self):
        self.model.lm_head.weight = torch.nn.Parameter(torch.zeros(3, 3))
        return super().open_batch()

server.EmbeddedEngine = Broken
code = server.main(sys.argv[1:])
sys.stdout.flush()
os._exit(code)
"""


@pytest.fixture
def started(policy: pathlib.Path, tmp_path: pathlib.Path):
    """``started(*command)``: the process, its address, and its log file."""
    log = tmp_path / "log"
    with ExitStack() as stack:

        def start(*command: str) -> tuple["subprocess.Popen[bytes]", str, pathlib.Path]:
            options = (policy, "--name", "served", "--max-rows", "8")
            return *stack.enter_context(server_process(log, *command, *options)), log

        yield start


def test_sigterm_ends_the_server(started):
    """While drawing: the client gets an error, the exit code is 0, the port is free, no prompt was logged."""
    process, url, log = started("-m", "pipeline_lib.engines.server.server")
    assert httpx.get(f"{url}/models").json()["data"][0]["id"] == "served"
    body = LONG | {"stream": True}
    with httpx.stream("POST", f"{url}/completions", json=body, timeout=60) as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith("data: ")
        process.terminate()
        assert any("the server is stopping" in line for line in lines)
    assert process.wait(timeout=60) == 0
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", httpx.URL(url).port))
    assert "secret" not in log.read_text()


def test_a_failed_engine_ends_the_process(started):
    """500 for the failed request, then exit code 1, so that a supervisor restarts it."""
    process, url, log = started("-c", BROKEN)
    answer = httpx.post(f"{url}/completions", json=LONG)
    assert answer.status_code == 500
    assert "the engine failed: RuntimeError" in answer.json()["error"]["message"]
    assert process.wait(timeout=60) == 1
    assert "Traceback" in log.read_text()
    assert "secret" not in log.read_text()


def test_a_taken_port_is_bad_input(policy, capsys):
    """Exit code 2 and one line that names the port, before the model is loaded."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert main([str(policy), "--port", str(port)]) == 2
    stderr = capsys.readouterr().err
    assert stderr.count("\n") == 1
    assert str(port) in stderr
    assert "another --port" in stderr


def test_a_model_without_attention_is_bad_input(policy, tmp_path, capsys):
    """It is refused at the start, not at the first request."""
    shutil.copytree(policy, tmp_path / "mamba")
    MambaForCausalLM(
        MambaConfig(vocab_size=8, hidden_size=16, num_hidden_layers=1, state_size=4)
    ).save_pretrained(tmp_path / "mamba")
    assert main([str(tmp_path / "mamba"), "--port", "0"]) == 2
    assert "MambaForCausalLM" in capsys.readouterr().err


def test_a_missing_model_is_bad_input(tmp_path, capsys):
    """Exit code 2 and one line that names the folder."""
    assert main([str(tmp_path / "nothing"), "--port", "0"]) == 2
    stderr = capsys.readouterr().err
    assert stderr.count("\n") == 1
    assert str(tmp_path / "nothing") in stderr
