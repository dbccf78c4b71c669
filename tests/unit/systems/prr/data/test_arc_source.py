"""Published ARC sets: equal puzzles from a repository and from Kaggle's files."""

import json

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.systems.prr.data.arc_source import read_subset
from tests.synthetic_data import ARC_COUNTS
from tests.unit.systems.prr.sample_puzzles import (
    DOUBLE,
    FILL,
    write_combined,
    write_repository,
)

# Counted with a plain JSON parser. ARC-2's evaluation set is often said to have 358 demonstrations
# and 172 test inputs; these files hold 359 and 167.
PUBLISHED = [
    ("arc-agi-1/training", 400, 1302, 416),
    ("arc-agi-1/evaluation", 400, 1363, 419),
    ("concept-arc/corpus", 160, 427, 480),
    ("concept-arc/MinimalTasks", 16, 46, 48),
    ("arc-agi-2/training", 1000, 3232, 1076),
    ("arc-agi-2/evaluation", 120, 359, 167),
]


@pytest.mark.parametrize(("name", "puzzles", "demonstrations", "tests"), PUBLISHED)
def test_counts_of_published_sets(reference_data, name, puzzles, demonstrations, tests):
    """Puzzles, demonstration pairs and test inputs, as read and as a plain parser counts them."""
    folder = reference_data / "arc"
    files = [json.loads(path.read_text("utf-8")) for path in (folder / name).rglob("*.json")]
    plain = (len(files), sum(len(f["train"]) for f in files), sum(len(f["test"]) for f in files))
    assert plain == (puzzles, demonstrations, tests)
    assert tuple(read_subset(folder, name).counts.values()) == plain


@pytest.mark.parametrize(("name", "counts"), ARC_COUNTS.items())
def test_counts_of_synthetic_sets(synthetic_data, name, counts):
    """The same for made puzzles, in one folder or in nested folders."""
    assert tuple(read_subset(synthetic_data / "arc", name).counts.values()) == counts


def test_a_prefix_of_combined_files(tmp_path):
    """As in TRM, a path prefix selects combined files, here kaggle/arc-agi."""
    write_combined(tmp_path / "kaggle")
    subset = read_subset(tmp_path / "kaggle" / "arc-agi", "evaluation")
    assert [puzzle.id for puzzle in subset.puzzles] == ["double"]


def test_a_subset_elsewhere(tmp_path):
    """NAME=PATH reads a folder or a challenges file under another name."""
    repository, combined = write_repository(tmp_path / "a"), write_combined(tmp_path / "b")
    folder = read_subset(tmp_path, f"one={repository}/training")
    file = read_subset(tmp_path, f"one={combined}/arc-agi_training_challenges.json")
    assert folder == file
    assert folder.name == "one"


@pytest.mark.parametrize(
    ("wanted", "complaint"),
    [
        ("concept", "no subset 'concept'; looked for the folder concept and for"),
        ("training", "subset 'training' is ambiguous"),
        ("=empty", "subset '=empty' has no name"),
        ("x=empty", "empty: no puzzles"),
        ("x=file.json", r"file.json: neither a folder of puzzles nor a file \*_challenges.json"),
    ],
)
def test_absent_and_ambiguous_subsets(tmp_path, monkeypatch, wanted, complaint):
    """No match, two matches, an empty folder and another file are errors."""
    monkeypatch.chdir(tmp_path)
    write_combined(tmp_path / "both")
    write_repository(tmp_path / "both" / "arc").rename(tmp_path / "repository")
    (tmp_path / "repository" / "training").rename(tmp_path / "both" / "training")
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.json").write_text("{}")
    with pytest.raises(BadInputError, match=complaint):
        read_subset(tmp_path / "both", wanted)


@pytest.mark.parametrize(
    ("solutions", "complaint"),
    [
        ({}, "not one output for each test input of"),
        ({"double": [[[1]]]}, "not one output for each test input of"),
        ({"double": [[[1]], [[11]]]}, "'test.1.output': row 1 holds 11"),
    ],
)
def test_broken_solutions(tmp_path, solutions, complaint):
    """An empty file, a wrong number of outputs, an output that is no grid."""
    root = write_combined(tmp_path / "b")
    (root / "arc-agi_evaluation_solutions.json").write_text(json.dumps(solutions), "utf-8")
    with pytest.raises(BadInputError, match=complaint):
        read_subset(root, "evaluation")


@pytest.mark.parametrize(
    ("puzzle", "complaint"),
    [
        ([1], "json: double: Input should be a valid dictionary"),
        (DOUBLE | {"test": [1, 2]}, "puzzle double: a test is no object with an input"),
    ],
)
def test_broken_challenges(tmp_path, puzzle, complaint):
    """A puzzle that is a list, tests that are numbers beside their outputs: the puzzle is named."""
    root = write_combined(tmp_path / "b")
    (root / "arc-agi_evaluation_challenges.json").write_text(
        json.dumps({"double": puzzle}), "utf-8"
    )
    with pytest.raises(BadInputError, match=complaint):
        read_subset(root, "evaluation")


def test_names_that_would_look_like_versions(tmp_path):
    """An id that contains the version separator is refused."""
    root = write_repository(tmp_path, {"training": {"a|||t0": FILL}})
    with pytest.raises(BadInputError, match="which marks versions"):
        read_subset(root, "training")
