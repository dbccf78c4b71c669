"""Commands of reasonloop, each a process of its own that is run once: a benchmark that is started again goes on."""

import pathlib
import sys
from collections.abc import Mapping
from dataclasses import asdict

from benchmarks.lib.processes import run_measured
from pipeline_lib.store.files import write_json


def run_once(
    folder: pathlib.Path, name: str, *command: object, params: Mapping[str, object] | None = None
) -> None:
    """Run a command unless it has succeeded before; its log and its usage are written to ``folder``.

    Raises:
        ChildProcessError: the command failed.
    """
    used = usage_file(folder, name)
    if used.exists():
        return
    given = (part for key, value in (params or {}).items() for part in ("--set", f"{key}={value}"))
    words = [sys.executable, "-m", "flows.cli", *map(str, command), *given]
    write_json(used, asdict(run_measured(words, folder / f"{name}.log")))


def usage_file(folder: pathlib.Path, name: str) -> pathlib.Path:
    """File with the CPU and wall seconds of a command; written when the command has succeeded."""
    return folder / f"{name}.used.json"
