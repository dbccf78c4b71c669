"""The tasks environment of the repository, where there is one, and one with further sets."""

import pathlib

import pytest

from benchmarks.lib.repository import REPOSITORY

TASKS = REPOSITORY / ".venv-tasks"
SETS = pathlib.Path(__file__).with_name("sets")
needs_tasks = pytest.mark.skipif(
    not (TASKS / "bin" / "python").exists(), reason="no task sets: make tasks-env"
)


def environment_with(folder: pathlib.Path, *packages: pathlib.Path) -> pathlib.Path:
    """A virtual environment that has the packages of the other one, and the modules in these folders."""
    [theirs] = TASKS.glob("lib/python*/site-packages")
    own = folder / theirs.relative_to(TASKS)
    own.mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to((TASKS / "bin" / "python").resolve())
    (folder / "pyvenv.cfg").write_text((TASKS / "pyvenv.cfg").read_text("utf-8"), "utf-8")
    (own / "sets.pth").write_text("\n".join(map(str, (theirs, *packages))), "utf-8")
    return folder
