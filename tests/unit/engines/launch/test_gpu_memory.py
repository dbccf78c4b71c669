"""GPU memory of ended processes, as the driver's tool reports it."""

import os
import subprocess
import sys

import pytest

PID = 7
LEAK = "import sys; from pipeline_lib.engines.launch.gpu_memory import find_leak; print(find_leak({7}))"


@pytest.fixture
def driver(tmp_path, monkeypatch) -> None:
    """A tool that reports process 7 of the host."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\necho '{PID}, 512 MiB'\n", "utf-8")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")


def test_ids_of_a_container_are_not_those_of_the_driver(driver):
    """A process of the host has the id that an ended process had in the container: no leak."""
    command = ["unshare", "--pid", "--fork", sys.executable, "-c", LEAK]
    found = subprocess.run(command, check=False, capture_output=True, text=True)
    if "unshare" in found.stderr:
        pytest.skip(f"no namespace can be made here: {found.stderr.strip()}")
    assert found.stdout == "None\n", found.stderr
