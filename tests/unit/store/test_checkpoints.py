"""Checkpoints: only a complete, undamaged one with the same key is resumed."""

import pathlib

import pytest

from pipeline_lib.store.checkpoints import DONE_NAME, newest, seal


@pytest.fixture
def work(tmp_path: pathlib.Path) -> pathlib.Path:
    """Sealed checkpoints of steps 2, 9 and 10: the order is by number, not by name."""
    for step in (2, 9, 10):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "weights").write_text(f"weights of {step}")
        seal(folder, key="mine")
    return tmp_path


def test_the_newest_is_the_one_of_most_steps(work: pathlib.Path):
    """10 comes after 9, although "10" sorts before "9"."""
    assert newest(work, key="mine") == work / "checkpoint-10"


@pytest.mark.parametrize("damage", ["flipped", "truncated", "missing", "not done", "no manifest"])
def test_a_broken_newest_falls_back_to_the_one_before(work: pathlib.Path, damage: str):
    """If step 10 is damaged, step 9 is resumed and step 10 removed."""
    folder = work / "checkpoint-10"
    match damage:
        case "flipped":
            (folder / "weights").write_text("weights of 11")
        case "truncated":
            (folder / "weights").write_text("weights")
        case "missing":
            (folder / "weights").unlink()
        case "not done":
            (folder / DONE_NAME).unlink()
        case _:
            (folder / "manifest.json").unlink()
    assert newest(work, key="mine") == work / "checkpoint-9"
    assert not folder.exists()


def test_checkpoints_of_another_key_are_not_resumed(work: pathlib.Path):
    """A changed param changes the key, so none of the three is used."""
    assert newest(work, key="changed") is None


def test_an_empty_folder_has_no_checkpoint(tmp_path: pathlib.Path):
    """An empty folder and a missing one have no checkpoint."""
    assert newest(tmp_path / "absent", key="mine") is None
