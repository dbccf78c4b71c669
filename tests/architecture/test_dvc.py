"""dvc.yaml: every stage depends on the code that it runs, on params that exist, on earlier outputs."""

import pathlib
from typing import get_args

import pytest
import yaml

from flows.options import Stage
from pipeline_lib.params.whole import Params
from pipeline_lib.params_file import REPOSITORY
from pipeline_lib.storage.stages import import_closure, source_file
from pipeline_lib.storage.workspace import LATENT_STAGES, STAGES

PIPELINE = yaml.safe_load((REPOSITORY / "dvc.yaml").read_text("utf-8"))["stages"]

TASK_MODULES = {
    "prepare": ["tasks.problems"],
    "bootstrap": ["tasks.bootstrapping"],
    "sample": ["tasks.sampling"],
    "verify": ["tasks.verification"],
    "build": ["tasks.traindata"],
    # It runs the later rounds whole.
    "train": ["tasks.training", "tasks.sampling", "tasks.verification", "tasks.traindata"],
    "control": ["tasks.control"],
    "evaluate": ["tasks.sampling", "tasks.verification", "tasks.evaluation"],
    "report": ["tasks.reporting"],
    # Parallel latent branches stand apart from the main job.
    "latent-data": ["tasks.latent"],
    "latent-train": ["tasks.latent"],
    "latent-evaluate": ["tasks.latent"],
}


def is_covered(source: pathlib.Path, deps: list[str]) -> bool:
    relative = source.relative_to(REPOSITORY).as_posix()
    return any(relative == dep or relative.startswith(f"{dep}/") for dep in deps)


def test_stages_are_the_flow():
    """dvc.yaml has the stages of the main job, in its order, and then those of latent branches."""
    assert list(PIPELINE) == list(TASK_MODULES) == [*STAGES, *LATENT_STAGES]


def test_every_stage_is_a_choice_of_the_command():
    """`reasonloop stage NAME`, by which DVC runs them, takes each stage."""
    assert get_args(Stage) == (*STAGES, *LATENT_STAGES)


@pytest.mark.parametrize("stage", TASK_MODULES)
def test_deps_cover_the_import_closure(stage):
    """Every module of ours that a stage's tasks import is among its dependencies."""
    closure = {name for module in TASK_MODULES[stage] for name in import_closure(module)}
    missing = [
        str(source_file(name).relative_to(REPOSITORY))
        for name in sorted(closure)
        if not is_covered(source_file(name), PIPELINE[stage]["deps"])
    ]
    assert missing == []


@pytest.mark.parametrize("stage", TASK_MODULES)
def test_deps_name_nothing_else(stage):
    """A dependency on code that the stage does not import would run it for nothing."""
    closure = {name for module in TASK_MODULES[stage] for name in import_closure(module)}
    sources = {source_file(name).relative_to(REPOSITORY).as_posix() for name in closure}
    code = [dep for dep in PIPELINE[stage]["deps"] if dep.endswith(".py") or "lib/" in dep]
    idle = [dep for dep in code if not any(s == dep or s.startswith(f"{dep}/") for s in sources)]
    assert idle == []


def test_inputs_are_outputs_of_earlier_stages():
    """What a stage reads under data/ and models/, a stage before it writes."""
    written: set[str] = set()
    for stage in PIPELINE.values():
        inputs = {dep for dep in stage["deps"] if dep.startswith(("data/", "models/"))}
        assert inputs <= written
        written |= {name for out in stage["outs"] for name in out}


def test_params_exist_and_leave_execution_out():
    """Each stage names existing params; where the work runs invalidates nothing."""
    known = set(Params.model_fields)
    for stage in PIPELINE.values():
        names = {name.split(".")[0] for name in stage.get("params", [])}
        assert names <= known
        assert "execution" not in names
