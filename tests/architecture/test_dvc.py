"""dvc.yaml and the table of stages: generated, ordered, and complete."""

import importlib
import inspect
from typing import get_args

import pytest
import yaml

from flows.cli.options import StageName
from flows.cli.stages import DVC_FILE, code_of, dvc_text
from flows.post_training import OWN_FLOWS
from pipeline_lib.params.whole import Params
from pipeline_lib.repository import REPOSITORY
from pipeline_lib.stages.keys import import_closure, source_file
from pipeline_lib.stages.loop import LOOP
from pipeline_lib.stages.systems import STAGES, SYSTEMS

PIPELINE = yaml.safe_load(DVC_FILE.read_text("utf-8"))["stages"]


def test_dvc_yaml_is_the_table_of_stages():
    """`reasonloop stages --write-dvc` updates a stale file."""
    assert DVC_FILE.read_text("utf-8") == dvc_text()
    assert list(PIPELINE) == list(STAGES)


def test_every_stage_is_a_choice_of_the_command():
    """`reasonloop stage NAME`, which DVC runs, accepts each stage."""
    assert get_args(StageName) == tuple(STAGES)


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_the_work_of_each_stage_exists(stage):
    """All modules can be imported; the work is a function of a run, or a flow."""
    for module in stage.modules:
        importlib.import_module(module)
    if stage.function is None:
        assert stage.name in OWN_FLOWS
    else:
        assert list(inspect.signature(stage.work()).parameters) == ["run"]


def test_flows_of_stages_are_in_the_table():
    """A flow of a stage outside the table never runs."""
    assert OWN_FLOWS.keys() <= {stage.name for stage in LOOP}
    assert {stage.beside for stage in LOOP} - {None} <= {stage.name for stage in LOOP}


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_deps_are_the_import_closure(stage):
    """The dependencies cover each imported module and no other, whether listed as files or folders."""
    closure = {name for module in stage.modules for name in import_closure(module)}
    imported = {source_file(name) for name in closure}
    listed = {
        path
        for dep in code_of(stage)
        for found in [REPOSITORY / dep]
        for path in (found.rglob("*.py") if found.is_dir() else [found])
    }
    modules = {path for path in listed | imported if path.name != "__init__.py"}
    assert modules & listed == modules & imported


def test_inputs_are_outputs_of_earlier_stages():
    """A stage reads only folders that an earlier stage of its system writes."""
    for system in SYSTEMS.values():
        written: set[str] = set()
        for stage in system:
            assert set(stage.inputs) <= written
            written |= set(stage.outputs)


def test_params_exist_and_leave_execution_out():
    """Each dotted key is a field of the params; execution settings invalidate no stage."""
    for stage in STAGES.values():
        for key in stage.params:
            section = Params()
            for name in key.split("."):
                section = getattr(section, name)
        assert not any(key.startswith("execution") for key in stage.params)
