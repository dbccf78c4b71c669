"""The examples of docs/guide.md for a served model work as printed."""

import json
import re
import shutil
import subprocess
import sys

import pytest

from benchmarks.lib.repository import REPOSITORY

HEADING = "## Serve a model"


@pytest.fixture
def example(base_url):
    """``example(kind)``: the section's block of that kind, with the address of a running server."""
    section = (
        (REPOSITORY / "docs" / "guide.md").read_text("utf-8").split(HEADING)[1].split("\n## ")[0]
    )
    blocks = dict(re.findall(r"```(\w+)\n(.*?)```", section, flags=re.DOTALL))

    def block(kind: str) -> str:
        assert "http://127.0.0.1:8300/v1" in blocks[kind]
        return blocks[kind].replace("http://127.0.0.1:8300/v1", base_url)

    return block


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_curl_streams(example):
    """The command prints chunks of text, a finish reason and ``[DONE]``."""
    _serve, _, command = example("console").partition("$ curl")
    done = subprocess.run(
        ["sh", "-c", f"curl{command}"], capture_output=True, text=True, check=True
    )
    *chunks, end = [line.removeprefix("data: ") for line in done.stdout.splitlines() if line]
    assert end == "[DONE]"
    choices = [json.loads(chunk)["choices"][0] for chunk in chunks]
    assert all(choice["text"] for choice in choices[:-1])
    assert choices[-1]["finish_reason"] in {"stop", "length"}


def test_python_prints_four_paths(example):
    """The program prints one or more lines for each of the four."""
    done = subprocess.run(
        [sys.executable, "-c", example("python")], capture_output=True, text=True, check=True
    )
    assert len(re.findall(r"^(?:stop|length) ", done.stdout, flags=re.MULTILINE)) == 4
