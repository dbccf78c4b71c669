"""The dvc.yaml files and the table of stages: generated, ordered, and complete."""

import importlib
import inspect
import pathlib
import pkgutil
import subprocess
from typing import get_args

import pytest
import yaml

from benchmarks.lib.repository import REPOSITORY
from flows.cli.loop.stages import code_digests, dvc_folder, dvc_text, write_dvc_files
from flows.cli.options import StageName
from flows.parallel.stages import OWN
from pipeline_lib.defaults import CODE_LOCK
from pipeline_lib.params.whole import Params
from pipeline_lib.store.keys import import_closure, source_file
from pipeline_lib.systems.loop.stages import LOOP
from pipeline_lib.systems.table import STAGES, SYSTEM_OF, SYSTEMS
from tests.architecture.param_reads import reads_of
from tests.architecture.test_params import product_sources


@pytest.mark.parametrize("system", SYSTEMS)
def test_dvc_yaml_is_the_table_of_stages(system):
    """`reasonloop stages --write-dvc` updates a stale file."""
    text = (REPOSITORY / dvc_folder(system) / "dvc.yaml").read_text("utf-8")
    assert text == dvc_text(system)
    names = [stage.name for stage in SYSTEMS[system].stages]
    assert list(yaml.safe_load(text)["stages"]) == ["code", *names]


def test_files_are_written_for_a_folder_without_a_checkout(tmp_path, monkeypatch):
    """Nothing is written into the package; a params file that is there is kept."""
    (tmp_path / "params.yaml").write_text("seed: 8\n")
    monkeypatch.chdir(tmp_path)
    write_dvc_files()
    written = {path.relative_to(tmp_path) for path in tmp_path.rglob("*.yaml")}
    assert written == {
        dvc_folder(s) / file for s in SYSTEMS for file in ("dvc.yaml", "params.yaml")
    }
    for path in written - {pathlib.Path("params.yaml")}:
        assert path.read_text("utf-8") == (REPOSITORY / path).read_text("utf-8")
    assert (tmp_path / "params.yaml").read_text() == "seed: 8\n"
    assert (tmp_path / "data" / "raw").is_dir()


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_stage_depends_on_the_digest_of_its_code(system):
    """Which the stage `code` writes; the params file is found from the folder of dvc.yaml."""
    folder = REPOSITORY / dvc_folder(system)
    code, *stages = yaml.safe_load((folder / "dvc.yaml").read_text("utf-8"))["stages"].items()
    assert code[0] == "code"
    for name, stage in stages:
        files = {path: keys for one in stage["params"] for path, keys in one.items()}
        assert files.pop(CODE_LOCK) == [name]
        for path, keys in files.items():
            sections = yaml.safe_load((folder / path).read_text("utf-8"))
            assert {key.partition(".")[0] for key in keys} <= sections.keys()
    assert list(code_digests(SYSTEMS[system], Params())) == [name for name, _ in stages]


def test_metrics_are_shown_by_dvc():
    """Each is an output of its stage, or listed apart if it is in a folder that is one."""
    for name, system in SYSTEMS.items():
        file = yaml.safe_load((REPOSITORY / dvc_folder(name) / "dvc.yaml").read_text("utf-8"))
        own = [
            path for one in file["stages"].values() for m in one.get("metrics", ()) for path in m
        ]
        expected = [path for stage in system.stages for path in stage.metrics]
        assert sorted([*own, *file.get("metrics", ())]) == sorted(expected)


def test_outputs_are_not_in_git():
    """What the stages write is ignored; digests of raw data, and the folder itself, are in git."""
    written = [
        (dvc_folder(SYSTEM_OF[stage.name].name) / path).as_posix()
        for stage in STAGES.values()
        for path in (*stage.outputs, *stage.metrics)
    ]
    kept = ["data/raw/.gitignore", "data/raw/gsm8k.dvc"]
    raw = ["data/raw/gsm8k/train.jsonl", "data/gsm8k/train.jsonl"]
    listed = subprocess.run(
        ["git", "check-ignore", "--no-index", *written, *raw, *kept],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(listed.stdout.split()) == {*written, *raw}


def test_params_of_the_control_are_those_that_it_reads():
    """A new rate of a method's own does not train the control again; every param of its code does."""
    sources = product_sources()
    params = {path for path in sources if path.parent.name == "params"}
    control = next(stage for stage in LOOP.stages if stage.name == "control")
    read = {source_file(name) for module in control.modules for name in import_closure(module)}
    read -= params
    reads = reads_of(
        [text for path, text in sources.items() if path not in read], [sources[p] for p in read]
    )
    listed = {key.removeprefix("train.") for key in control.params if key.startswith("train.")}
    assert listed == {name for owner, name in reads if owner == "TrainParams"}


def test_every_stage_is_a_choice_of_the_command():
    """`reasonloop stage NAME`, which DVC runs, accepts each stage."""
    assert get_args(StageName) == tuple(STAGES)


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_the_work_of_each_stage_exists(stage):
    """All modules can be imported; the work is a function of a run, or a flow."""
    for module in stage.modules:
        importlib.import_module(module)
    if stage.name in OWN:
        assert list(inspect.signature(pkgutil.resolve_name(OWN[stage.name])).parameters) == ["run"]
    if stage.function is None:
        assert stage.name in OWN
    else:
        assert list(inspect.signature(stage.work()).parameters) == ["run"]


def test_flows_of_stages_are_in_the_table():
    """A body of a stage outside the table never runs; a stage runs beside one of its system."""
    assert OWN.keys() <= STAGES.keys()
    for system in SYSTEMS.values():
        names = {stage.name for stage in system.stages}
        assert {stage.beside for stage in system.stages} - {None} <= names


def test_inputs_are_outputs_of_earlier_stages():
    """A stage reads only folders that an earlier stage of its system writes."""
    for system in SYSTEMS.values():
        written: set[str] = set()
        for stage in system.stages:
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
