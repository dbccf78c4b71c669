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
    """Run a command unless it has ended well before; its log and what it used are in ``folder``.

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
    """What the command used; it exists once the command has ended well."""
    return folder / f"{name}.used.json"
