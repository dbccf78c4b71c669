"""Data folders in the format of TRM and HRM: round trip and validation."""

import json
import tracemalloc

import numpy as np
import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.systems.prr.data.dataset_files import (
    read_identifiers,
    read_set,
    read_test_puzzles,
)
from pipeline_lib.systems.prr.data.set_writer import (
    open_split,
    write_identifiers,
    write_set,
    write_test_puzzles,
)
from tests.unit.systems.prr.data.sample_sets import small_set

FIELDS = ("inputs", "labels", "puzzle_identifiers", "puzzle_indices", "group_indices")


@pytest.fixture
def folder(tmp_path):
    write_set(tmp_path, "train", small_set())
    write_identifiers(tmp_path, "abc")
    return tmp_path


def change_metadata(folder, **changes):
    path = folder / "train" / "dataset.json"
    content = json.loads(path.read_text("utf-8")) | changes
    path.write_text(json.dumps({k: v for k, v in content.items() if v is not None}), "utf-8")


def test_round_trip(folder):
    """Arrays, metadata and identifiers are read as written."""
    written, read = small_set(), read_set(folder, "train")
    assert read.metadata == written.metadata
    for field in ("inputs_NL", "labels_NL", "puzzle_identifiers_P", "puzzle_indices_P1"):
        np.testing.assert_array_equal(getattr(read, field), getattr(written, field))
    np.testing.assert_array_equal(read.group_indices_G1, written.group_indices_G1)
    assert read_identifiers(folder) == ["<blank>", "a", "b", "c"]
    assert read.example_identifiers.tolist() == [1, 1, 2, 3]


def test_types_are_those_of_trm(folder):
    """Tokens are uint8 [N, L] in C order, indices int32, as plain numpy files."""
    arrays = {field: np.load(folder / "train" / f"all__{field}.npy") for field in FIELDS}
    dtypes = {field: array.dtype for field, array in arrays.items()}
    assert dtypes == {
        "inputs": np.uint8,
        "labels": np.uint8,
        "puzzle_identifiers": np.int32,
        "puzzle_indices": np.int32,
        "group_indices": np.int32,
    }
    assert arrays["inputs"].shape == (4, 4)
    assert arrays["inputs"].flags.c_contiguous


def test_metadata_have_the_fields_of_trm(folder):
    """The ten fields of dataset.json, 4 examples over 3 puzzles in 2 groups."""
    assert json.loads((folder / "train" / "dataset.json").read_text("utf-8")) == {
        "pad_id": 0,
        "ignore_label_id": 0,
        "blank_identifier_id": 0,
        "vocab_size": 12,
        "seq_len": 4,
        "num_puzzle_identifiers": 4,
        "total_groups": 2,
        "mean_puzzle_examples": 4 / 3,
        "total_puzzles": 3,
        "sets": ["all"],
    }


def test_a_folder_of_hrm_is_read(folder):
    """HRM leaves total_puzzles out, its Sudoku tokens may be int64, and a field may be unknown."""
    change_metadata(folder, total_puzzles=None, extra=1)
    path = folder / "train" / "all__inputs.npy"
    np.save(path, np.load(path).astype(np.int64))
    assert read_set(folder, "train").inputs_NL[3, 3] == 15 % 12


def test_another_set_name_is_read(folder):
    """The one name in ``sets`` decides which arrays are meant."""
    change_metadata(folder, sets=["hard"])
    for path in (folder / "train").glob("all__*"):
        path.rename(path.with_name(path.name.replace("all", "hard")))
    assert len(read_set(folder, "train").inputs_NL) == 4


def test_an_empty_split(tmp_path):
    """A split without examples is written and read."""
    with open_split(tmp_path, "test", vocab_size=12, seq_len=4) as writer:
        writer.finish(num_puzzle_identifiers=1)
    assert read_set(tmp_path, "test").inputs_NL.shape == (0, 4)


def test_memory_does_not_grow_with_examples(tmp_path):
    """36 MB of tokens are written with a tenth of that in memory, and memory-mapped when read."""
    rows = np.ones((100, 900), dtype=np.uint8)
    tracemalloc.start()
    with open_split(tmp_path, "train", vocab_size=12, seq_len=900) as writer:
        for _ in range(200):
            writer.add_puzzle([(row, row) for row in rows])
            writer.end_group()
        writer.finish(num_puzzle_identifiers=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4_000_000
    data = read_set(tmp_path, "train")
    assert isinstance(data.inputs_NL, np.memmap)
    assert data.inputs_NL.shape == (20_000, 900)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"pad_id": 3}, "pad_id: Input should be 0"),
        ({"vocab_size": None}, "vocab_size: Field required"),
        ({"sets": ["a", "b"]}, "sets: Tuple should have at most 1 item"),
        ({"total_groups": 5}, "all__group_indices.npy: 3 entries, expected 6"),
        ({"total_puzzles": 7}, "all__puzzle_identifiers.npy: 3 puzzles, not 7"),
        ({"num_puzzle_identifiers": 3}, "all__puzzle_identifiers.npy: holds values"),
        ({"seq_len": 9}, "all__inputs.npy: shape (4, 4), expected (4, 9)"),
        ({"vocab_size": 11}, "all__inputs.npy: holds values outside 0 to 10"),
    ],
)
def test_inconsistent_metadata(folder, changes, words):
    """A one-line error names the file and the violation."""
    change_metadata(folder, **changes)
    with pytest.raises(BadInputError) as error:
        read_set(folder, "train")
    assert words in str(error.value)
    assert str(folder) in str(error.value)


@pytest.mark.parametrize(
    ("field", "array", "words"),
    [
        ("inputs", np.zeros(4, np.uint8), "uint8 with 1 axes, expected integers with 2"),
        ("labels", np.zeros((4, 4)), "float64 with 2 axes, expected integers"),
        ("labels", np.zeros((3, 4), np.uint8), "shape (3, 4), expected (4, 4)"),
        ("labels", np.full((4, 4), -1), "outside 0 to 11"),
        ("puzzle_indices", np.array([0, 2, 4]), "3 entries, expected 4"),
        ("puzzle_indices", np.array([0, 2, 2, 4]), "does not rise from 0 to 4"),
        ("puzzle_indices", np.array([0, 2, 3, 5]), "does not rise from 0 to 4"),
        ("group_indices", np.array([1, 2, 3]), "does not rise from 0 to 3"),
    ],
)
def test_inconsistent_arrays(folder, field, array, words):
    """The error names the file, the violation and the remedy."""
    path = folder / "train" / f"all__{field}.npy"
    np.save(path, array)
    with pytest.raises(BadInputError) as error:
        read_set(folder, "train")
    assert words in str(error.value)
    assert str(path) in str(error.value)
    assert "build the data again" in str(error.value)


def test_broken_and_missing_files(folder):
    """A truncated array, an absent one and an absent split are named."""
    path = folder / "train" / "all__labels.npy"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(BadInputError, match=r"all__labels\.npy: not a numpy array"):
        read_set(folder, "train")
    path.unlink()
    with pytest.raises(
        BadInputError, match=r"all__labels\.npy: not a numpy array \(.*No such file"
    ):
        read_set(folder, "train")
    with pytest.raises(BadInputError, match=r"test/dataset\.json: no such file"):
        read_set(folder, "test")


def test_pickles_are_not_opened(folder):
    """An array of objects would run code when it is read."""
    np.save(folder / "train" / "all__labels.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(BadInputError, match="not a numpy array"):
        read_set(folder, "train")


def test_invalid_identifiers_and_puzzles(folder):
    """Identifiers that are not a list, puzzles that are not an object, and an invalid grid."""
    (folder / "identifiers.json").write_text('{"a": 1}', "utf-8")
    with pytest.raises(BadInputError, match=r"identifiers\.json: Input should be a valid list"):
        read_identifiers(folder)
    (folder / "test_puzzles.json").write_text("[]", "utf-8")
    with pytest.raises(BadInputError, match=r"test_puzzles\.json: Input should be a valid dict"):
        read_test_puzzles(folder)
    pair = {"input": [[1]], "output": [[10]]}
    write_test_puzzles(folder, {"a": {"train": [pair], "test": [pair]}})
    with pytest.raises(BadInputError, match=r"puzzle a: 'train.0.output': row 1 holds 10"):
        read_test_puzzles(folder)
