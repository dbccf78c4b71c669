"""Stage keys change with code, params and inputs, and with nothing else."""

import pathlib

from pipeline_lib.storage.stages import code_digest, import_closure, source_file, stage_key

MODULE = "pipeline_lib.storage.shards"


def test_closure_holds_what_is_imported_and_nothing_else():
    """Shards stand on manifests, files and errors; they know nothing of problems."""
    assert import_closure(MODULE) == [
        "pipeline_lib.errors",
        "pipeline_lib.storage.files",
        "pipeline_lib.storage.manifests",
        "pipeline_lib.storage.shards",
    ]


def test_closure_reaches_across_packages():
    """A module of the tasks brings the library modules that it calls."""
    assert "pipeline_lib.seeding" in import_closure("tasks.problems")


def test_source_file_of_modules_and_packages():
    """The file that is digested is the one that the module was loaded from."""
    root = pathlib.Path(__file__).parents[3]
    assert source_file(MODULE) == root / "pipeline_lib" / "storage" / "shards.py"
    assert source_file("pipeline_lib.storage") == root / "pipeline_lib" / "storage" / "__init__.py"


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
    """Modules with different closures have different digests, each the same when asked again."""
    assert code_digest(MODULE) == code_digest(MODULE)
    assert code_digest(MODULE) != code_digest("pipeline_lib.storage.manifests")
