"""Atomic replacement of folders, and removal of what killed processes have left."""

import pathlib

import pytest

from pipeline_lib.store import checkpoints, manifests
from pipeline_lib.store.files import write_text
from pipeline_lib.store.folders import remove_leftovers, replaced


def test_a_folder_is_replaced_only_by_a_whole_one(tmp_path: pathlib.Path):
    """An error inside leaves the old content; the next success removes all of it."""
    folder = tmp_path / "policy"
    folder.mkdir()
    (folder / "old").touch()
    with pytest.raises(FileNotFoundError), replaced(folder) as fresh:
        (fresh / "half").rename(fresh / "absent" / "half")
    assert [path.name for path in folder.iterdir()] == ["old"]
    with replaced(folder) as fresh:
        assert list(fresh.iterdir()) == []
        (fresh / "new").touch()
    assert [path.name for path in folder.iterdir()] == ["new"]


def test_a_failure_leaves_nothing_behind(tmp_path: pathlib.Path):
    """After an error neither new files nor the temporary folder are left."""
    with pytest.raises(ZeroDivisionError), replaced(tmp_path / "data") as fresh:
        (fresh / "half").write_text(str(1 // 0))
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_removed(tmp_path: pathlib.Path):
    """Files of an interrupted run are not in the next result."""
    with replaced(tmp_path / "data") as fresh:
        (fresh / "half").touch()
        left = fresh
        fresh.rename(tmp_path / "kept")
        fresh.mkdir()
    (tmp_path / "kept").rename(left)
    with replaced(tmp_path / "data") as fresh:
        (fresh / "new").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["data", "new"]


def file(path: pathlib.Path) -> pathlib.Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x", "utf-8")
    return path


def sealed(folder: pathlib.Path, *, key: str) -> pathlib.Path:
    write_text(folder / "a.txt", "a")
    manifests.seal(folder, kind="model", key=key)
    return folder


@pytest.mark.parametrize(
    "left",
    [
        "data/paths/.part-00001.parquet.41.part",
        "data/.paths.fresh/part-00000.parquet",
        "data/paths/deep/.result.fresh/result.json",
        "reports/.report.html.41.part",
    ],
)
def test_without_a_final_name(tmp_path, left):
    """A temporary file or folder in an output, or beside it under its name, is removed."""
    whole = [sealed(tmp_path / "data" / "paths", key="k"), file(tmp_path / "reports/report.html")]
    path = file(tmp_path / left)
    remove_leftovers([tmp_path / "data" / "paths", tmp_path / "reports" / "report.html"])
    assert not path.exists()
    assert all(found.exists() for found in whole)
    assert manifests.current(whole[0], kind="model", key="k") is not None


@pytest.mark.parametrize(
    "other",
    [
        "data/.gitignore",
        "data/.other.fresh/a.txt",
        "data/paths/.notes",
        "reports/.table.csv.41.part",
        "data/paths/x.part",
    ],
)
def test_files_of_others_are_kept(tmp_path, other):
    """Only outputs, and names that the storage gives, are touched."""
    path = file(tmp_path / other)
    remove_leftovers([tmp_path / "data" / "paths", tmp_path / "reports" / "report.html"])
    assert path.exists()


@pytest.mark.parametrize(
    ("published", "kept"),
    [("key" + "0" * 61, False), ("other" + "0" * 59, True), (None, True)],
    ids=["of this training", "of another", "none"],
)
def test_checkpoints_are_kept_until_their_result_is_published(tmp_path, published, kept):
    """They are removed with their folder only if the policy has the key of their training."""
    policy = tmp_path / "models" / "policy"
    if published is not None:
        sealed(policy, key=published)
    work = checkpoints.work_folder(policy, "key" + "0" * 61)
    file(work / "checkpoint-2" / "model.safetensors")
    remove_leftovers([policy])
    assert work.exists() == kept
    assert work.parent.exists() == kept


def test_policies_of_earlier_rounds(tmp_path):
    """Their checkpoints are below the output of the stage, and are treated alike."""
    rounds = tmp_path / "models" / "rounds"
    for name in ("1", "2"):
        file(checkpoints.work_folder(rounds / name, "k" * 64) / "checkpoint-1" / "a")
    sealed(rounds / "1", key="k" * 64)
    remove_leftovers([rounds])
    assert not (rounds / ".1.work").exists()
    assert (rounds / ".2.work").exists()
