"""Copies and clones of this repository, and DVC's command in them."""

import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import yaml

from benchmarks.lib.repository import REPOSITORY
from pipeline_lib import defaults
from pipeline_lib.params_file import load_params
from pipeline_lib.systems.table import STAGES

COMMAND_TIMEOUT_S = 800
_SOURCES = (
    *("reasonloop", "flows", "tasks", "pipeline_lib", ".dvc", "dvc.yaml"),
    *(".gitignore", "data/raw/.gitignore"),
    "pipelines",
)
_BINARIES = pathlib.Path(sys.executable).parent


@dataclass(frozen=True)
class Checkout:
    """A git repository with DVC, and the environment of its commands."""

    folder: pathlib.Path
    environment: Mapping[str, str]

    def git(self, *arguments: str) -> str:
        return _output(["git", *arguments], self.folder, self.environment)

    def dvc(self, *arguments: str) -> str:
        return _output([str(_BINARIES / "dvc"), *arguments], self.folder, self._with_python())

    def stale(self) -> str:
        """The stale stages by `dvc status`, without `code`, which always runs."""
        listed = self.dvc("status").replace("code:\n\talways changed\n", "")
        return listed.replace("Data and pipelines are up to date.", "").strip()

    def reasonloop(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "flows.cli", *arguments]
        return _output(command, self.folder, self._with_python())

    def commit(self, message: str) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)

    def clone(self, folder: pathlib.Path) -> "Checkout":
        self.git("clone", "--quiet", str(self.folder), str(folder))
        other = Checkout(folder, self.environment)
        other.name_author()
        return other

    def clone_with_cache(self, folder: pathlib.Path) -> "Checkout":
        """A clone that shares this cache, with all outputs checked out."""
        other = self.clone(folder)
        other.dvc("config", "--local", "cache.dir", str(self.folder / ".dvc" / "cache"))
        other.dvc("checkout", "--quiet")
        return other

    def name_author(self) -> None:
        """In the repository, since experiments of DVC are committed by libraries."""
        self.git("config", "user.name", "test")
        self.git("config", "user.email", "test@localhost")

    def _with_python(self) -> dict[str, str]:
        path = f"{_BINARIES}{os.pathsep}{self.environment['PATH']}"
        own = {"PATH": path, "PYTHONPATH": str(self.folder), "DVC_NO_ANALYTICS": "1"}
        return {**self.environment, **own}


def copy_repository(folder: pathlib.Path, environment: Mapping[str, str]) -> Checkout:
    """The sources as a repository with one commit, and with the smoke profile as its params."""
    made = open_repository(folder, _SOURCES, environment)
    params = load_params(profile="smoke", overrides=["execution.runner=thread"])
    sections = params.model_dump(mode="json")
    for file in folder.glob(defaults.PIPELINE_PARAMS):
        system = file.parent.name
        file.write_text(yaml.safe_dump({system: sections.pop(system)}), encoding="utf-8")
    (folder / "params.yaml").write_text(yaml.safe_dump(sections), encoding="utf-8")
    made.commit("params")
    return made


def open_repository(
    folder: pathlib.Path, names: Iterable[str], environment: Mapping[str, str]
) -> Checkout:
    """A new repository with files and folders of this one, in one commit."""
    for name in names:
        source, target = REPOSITORY / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "cache", "tmp", "config.local")
            shutil.copytree(source, target, ignore=ignored)
        else:
            shutil.copy(source, target)
    made = Checkout(folder, environment)
    made.git("init", "--quiet")
    made.name_author()
    made.commit("sources")
    return made


def stages_in(output: str) -> set[str]:
    """The stages that DVC ran, or would run, by its output."""
    return {name for name in STAGES if f"Running stage '{name}'" in output}


def _output(command: list[str], folder: pathlib.Path, environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stdout}"
    return done.stdout
