"""The import contracts of pyproject.toml hold."""

import pathlib
import subprocess
import sys

from benchmarks.lib.repository import REPOSITORY


def test_import_contracts():
    """lint-imports finds no broken contract."""
    command = pathlib.Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [command, "--no-cache"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
