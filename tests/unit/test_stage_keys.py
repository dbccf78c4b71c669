"""Stage keys change with code, params and inputs, and with nothing else."""

import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable

import pytest

from pipeline_lib.store import keys
from pipeline_lib.store.keys import code_digest, import_closure, source_file, stage_key

MODULE = "pipeline_lib.store.shards"


def test_closure_holds_what_is_imported_and_nothing_else():
    """The closure of shards has manifests, files and errors, and no module of problems."""
    assert import_closure(MODULE) == [
        "pipeline_lib.errors",
        "pipeline_lib.store.files",
        "pipeline_lib.store.manifests",
        "pipeline_lib.store.shards",
        "pipeline_lib.terminal_text",
    ]


def test_closure_reaches_across_packages():
    """The closure of a stage has the modules that it calls, and no params of other stages."""
    closure = import_closure("pipeline_lib.systems.loop.prepare")
    assert "pipeline_lib.seeding" in closure
    assert "pipeline_lib.params.train" not in closure


def test_bytecode_of_a_former_package_is_no_package(tmp_path, monkeypatch):
    """A package that became a module leaves its folder in a clone that is updated."""
    monkeypatch.setattr(keys, "_SOURCES", tmp_path)
    (tmp_path / "package" / "__pycache__").mkdir(parents=True)
    (tmp_path / "package.py").touch()
    assert source_file("package") == tmp_path / "package.py"


def test_source_file_of_modules_and_packages():
    """The file that is digested is the one that the module was loaded from."""
    root = pathlib.Path(__file__).parents[2]
    assert source_file(MODULE) == root / "pipeline_lib" / "store" / "shards.py"
    assert source_file("pipeline_lib.store") == root / "pipeline_lib" / "store" / "__init__.py"


def test_key_changes_with_each_part_and_is_stable_otherwise():
    """Another module, another param or another input gives another key; the same gives the same."""
    key = stage_key(MODULE, params={"steps": 1, "lr": 0.1}, inputs={"paths": "d1"})
    assert stage_key(MODULE, params={"lr": 0.1, "steps": 1}, inputs={"paths": "d1"}) == key
    others = {
        stage_key("pipeline_lib.seeding", params={"steps": 1, "lr": 0.1}, inputs={"paths": "d1"}),
        stage_key(MODULE, params={"steps": 2, "lr": 0.1}, inputs={"paths": "d1"}),
        stage_key(MODULE, params={"steps": 1, "lr": 0.1}, inputs={"paths": "d2"}),
        stage_key(MODULE, params={"steps": 1, "lr": 0.1}, inputs={"verdicts": "d1"}),
    }
    assert len(others | {key}) == 5


def test_code_digest_follows_the_closure():
    """Modules with different closures have different digests, equal on every call."""
    assert code_digest(MODULE) == code_digest(MODULE)
    assert code_digest(MODULE) != code_digest("pipeline_lib.store.manifests")


class Copy:
    """A copy of the code, whose keys are computed in another process."""

    def __init__(self, folder: pathlib.Path) -> None:
        source = pathlib.Path(__file__).parents[2] / "pipeline_lib"
        ignore = shutil.ignore_patterns("*.pyc")
        shutil.copytree(source, folder / "pipeline_lib", ignore=ignore)
        self.folder = folder

    def keys(self, *modules: str) -> list[str]:
        calls = ", ".join(f"stage_key({name!r}, params={{}}, inputs={{}})" for name in modules)
        script = f"from pipeline_lib.store.keys import stage_key; print({calls})"
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=True)
        return done.stdout.split()

    def keys_with(self, name: str, change: Callable[[str], str], *modules: str) -> list[str]:
        """The keys after a change of one file, which is undone."""
        source = self.folder / "pipeline_lib" / name
        before = source.read_text("utf-8")
        source.write_text(change(before), "utf-8")
        found = self.keys(*modules)
        source.write_text(before, "utf-8")
        return found


def with_constant(text: str) -> str:
    return f"{text}LIMIT = 1\n"


def test_key_changes_with_the_source_that_is_imported_and_with_no_other(tmp_path):
    """In a copy of the code: a constant in `errors`, which shards import, changes their key; one in
    `seeding`, which they do not, leaves it, and so do comments, docstrings and line breaks.
    """
    copy = Copy(tmp_path)

    def key_with(name: str, change: Callable[[str], str]) -> list[str]:
        return copy.keys_with(name, change, MODULE)

    key = copy.keys(MODULE)
    assert key_with("errors.py", with_constant) != key
    assert key_with("errors.py", lambda text: text.replace("[int] = 2", "[int] = 3")) != key
    assert key_with("seeding.py", with_constant) == key
    assert key_with("errors.py", lambda text: f"# why\n\n\n{text}# more\n") == key
    assert key_with("errors.py", lambda text: re.sub(r'"""(?=\w)', '"""More: ', text)) == key


def test_a_changed_judge_judges_again_and_draws_nothing_again(tmp_path):
    """Judges are imported by name: a constant of the math judge changes the key of verification,
    not that of sampling."""
    copy = Copy(tmp_path)
    stages = ("pipeline_lib.systems.loop.verify", "pipeline_lib.systems.loop.sample")
    verification, sampling = copy.keys(*stages)
    changed = copy.keys_with("verify/math/symbolic/equality.py", with_constant, *stages)
    assert changed[0] != verification
    assert changed[1] == sampling


def test_docstrings_are_those_of_modules_classes_functions_and_attributes(tmp_path, monkeypatch):
    """A function with only a docstring equals an empty one; a string that is used counts."""
    monkeypatch.setattr(keys, "_SOURCES", tmp_path)

    def syntax(text: str) -> str:
        (tmp_path / "m.py").write_text(text, "utf-8")
        return keys.code_digest.__wrapped__("m")

    monkeypatch.setattr(keys, "import_closure", lambda module: [module])
    bare = syntax("class A:\n    x = 1\n    async def f(self): pass\n")
    told = '"""M."""\nclass A:\n    """A."""\n    x = 1\n    """X."""\n    async def f(self):\n'
    assert syntax(told + '        """F."""\n        pass\n') == bare
    assert syntax(told + '        return """F."""\n') != bare
    assert syntax("class A:\n    x = 2\n    async def f(self): pass\n") != bare


STAGES = """
import os, pathlib, sys
from pipeline_lib import telemetry
from pipeline_lib.systems.loop import bootstrap, prepare
from pipeline_lib.params.whole import Params
from pipeline_lib.systems.stage import Run

breaks_at = int(sys.argv[2])
record_work = telemetry.record_work

def reported(*arguments, done, **more):
    print(done)
    if done == breaks_at:
        sys.stdout.flush()
        os._exit(9)
    record_work(*arguments, done=done, **more)

telemetry.record_work = reported
small = {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "steps": 12, "checkpoint_every": 4}
splits = {"train_problems": 8, "test_problems": 8, "bootstrap_problems": 40}
run = Run(
    root=pathlib.Path(sys.argv[1]),
    params=Params.model_validate({"prepare": splits, "bootstrap": {**small, "batch_size": 4}}),
)
prepare.prepare(run)
bootstrap.bootstrap(run)
"""


@pytest.mark.slow
def test_a_comment_in_training_keeps_its_checkpoints_and_a_constant_does_not(tmp_path):
    """A training is broken at step 11, after its checkpoint at 8. With another comment and docstring
    in its code it goes on at 9, and the finished policy is found; with another constant it is
    trained from the first step.
    """
    code, workspace = tmp_path / "code", tmp_path / "workspace"
    copy = Copy(code)

    def steps(breaks_at: int = 0) -> list[int]:
        command = [sys.executable, "-c", STAGES, workspace, str(breaks_at)]
        done = subprocess.run(command, cwd=code, capture_output=True, text=True, check=False)
        assert done.returncode == (9 if breaks_at else 0), done.stderr
        return [int(line) for line in done.stdout.split()]

    def change(edit: Callable[[str], str]) -> None:
        source = copy.folder / "pipeline_lib" / "train" / "bootstrap.py"
        source.write_text(edit(source.read_text("utf-8")), "utf-8")

    assert steps(breaks_at=11) == list(range(1, 12))
    change(lambda text: re.sub(r'"""(?=\w)', '"""More: ', text))
    assert steps() == [9, 10, 11, 12]
    change(lambda text: f"{text}# More.\n")
    assert steps() == []
    change(with_constant)
    assert steps() == list(range(1, 13))
