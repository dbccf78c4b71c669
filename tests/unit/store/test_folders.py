"""Atomic replacement of folders."""

import pathlib

import pytest

from pipeline_lib.store.folders import replaced


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
