"""`dvc repro` in a copy of the repository: same results, and only stale stages run."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import yaml

from pipeline_lib.params_file import load_params
from pipeline_lib.repository import REPOSITORY
from pipeline_lib.stages.loop import LOOP
from pipeline_lib.storage import manifests
from pipeline_lib.storage.workspace import Workspace

MAIN_JOB = {stage.name for stage in LOOP}
SOURCES = ("flows", "tasks", "pipeline_lib", "profiles", ".dvc", "dvc.yaml", "constraints.txt")


@pytest.fixture
def checkout(tmp_path, reasonloop):
    """The sources as a separate repository, with the smoke profile as its params."""
    for name in SOURCES:
        source = REPOSITORY / name
        ignore = shutil.ignore_patterns("__pycache__", "cache", "tmp")
        if source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=ignore)
        else:
            shutil.copy(source, tmp_path / name)
    params = load_params(profile="smoke", overrides=["execution.runner=thread"])
    text = yaml.safe_dump(params.model_dump(mode="json"))
    (tmp_path / "params.yaml").write_text(text, encoding="utf-8")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    return tmp_path


def repro(checkout: pathlib.Path, environment: dict[str, str]) -> set[str]:
    """Run `dvc repro`; return the stages that it ran."""
    binaries = pathlib.Path(sys.executable).parent
    path = f"{binaries}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        [binaries / "dvc", "repro"],
        cwd=checkout,
        env={**environment, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {stage for stage in MAIN_JOB if f"Running stage '{stage}'" in done.stdout}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_repro(checkout, finished_run, reasonloop):
    """All stages, then none, then after a new training rate train, control, evaluate and report."""
    assert repro(checkout, reasonloop.environment) == MAIN_JOB
    results = [
        manifests.read_manifest(Workspace(root).evaluation_result).digest
        for root in (checkout, finished_run)
    ]
    assert results[0] == results[1]
    assert repro(checkout, reasonloop.environment) == set()
    params = yaml.safe_load((checkout / "params.yaml").read_text("utf-8"))
    params["train"]["lr"] *= 2
    (checkout / "params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")
    assert repro(checkout, reasonloop.environment) == {"train", "control", "evaluate", "report"}
