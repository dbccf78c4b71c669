"""Sudoku and maze folders: tokens of HRM, valid versions, errors that name the line."""

import math

import numpy as np
import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.store.manifests import Manifest
from pipeline_lib.systems.prr.data.boards import BoardOptions, Maze, Sudoku, build_boards
from pipeline_lib.systems.prr.data.dataset_files import read_identifiers, read_set
from tests.unit.systems.prr.data.sample_sets import files_of
from tests.unit.systems.prr.sample_boards import MAZE, MAZE_SOLVED, SOLVED, SUDOKU, write_csv

EASY, HARD = (SUDOKU, SOLVED, "3"), (SOLVED[:-1] + ".", SOLVED, "20")
CORRIDOR = ("S G######", "SoG######", "1")


def build(source, output, *, kind=None, seen=None, **options) -> Manifest:
    progress = [] if seen is None else seen
    return build_boards(
        source,
        kind or Sudoku(),
        BoardOptions(**options),
        output,
        on_progress=lambda done, total: progress.append((done, total)),
    )


@pytest.fixture
def sudokus(tmp_path):
    return write_csv(tmp_path / "sudoku", train=[EASY, HARD], test=[EASY])


@pytest.fixture
def mazes(tmp_path):
    return write_csv(tmp_path / "maze", train=[(MAZE, MAZE_SOLVED, "1"), CORRIDOR], test=[CORRIDOR])


def test_sudoku_tokens(sudokus, tmp_path):
    """Blanks are 1, digit d is d + 1, vocabulary 11, 81 cells; only the blank identifier."""
    build(sudokus, tmp_path / "out")
    data = read_set(tmp_path / "out", "test")
    assert data.labels_NL[0].tolist() == [int(digit) + 1 for digit in SOLVED]
    blanks = np.flatnonzero(data.inputs_NL[0] == 1)
    assert blanks.tolist() == [40, 80]
    assert (data.inputs_NL[0] == data.labels_NL[0]).sum() == 79
    assert (data.metadata.vocab_size, data.metadata.seq_len) == (11, 81)
    assert data.metadata.num_puzzle_identifiers == 1
    assert read_identifiers(tmp_path / "out") == ["<blank>"]
    assert data.puzzle_identifiers_P.tolist() == [0]


def test_maze_tokens(mazes, tmp_path):
    """Wall 1, blank 2, start 3, goal 4, path 5; vocabulary 6."""
    build(mazes, tmp_path / "out", kind=Maze())
    data = read_set(tmp_path / "out", "train")
    assert data.inputs_NL[0].tolist() == [3, 2, 2, 1, 2, 1, 2, 4, 2]
    assert data.labels_NL[0].tolist() == [3, 5, 2, 1, 5, 1, 2, 4, 2]
    assert (data.metadata.vocab_size, data.metadata.seq_len) == (6, 9)


def is_solved(cells: np.ndarray) -> bool:
    """Every digit (2 to 10 as tokens) once in each row, column and box."""
    grid = cells.reshape(9, 9)
    boxes = [grid[r : r + 3, c : c + 3].ravel() for r in (0, 3, 6) for c in (0, 3, 6)]
    return all(sorted(unit) == list(range(2, 11)) for unit in (*grid, *grid.T, *boxes))


def test_sudoku_versions_are_sudokus(sudokus, tmp_path):
    """Each of 60 versions is solved by its answer and has as many blanks as the original.

    They are in the board's group, differ from each other, and only the train split has them.
    """
    build(sudokus, tmp_path / "out", num_aug=60)
    train = read_set(tmp_path / "out", "train")
    assert train.group_indices_G1.tolist() == [0, 61, 122]
    assert len({row.tobytes() for row in train.inputs_NL[:61]}) == 61
    for number, (question, answer) in enumerate(zip(train.inputs_NL, train.labels_NL, strict=True)):
        assert is_solved(answer)
        blank = question == 1
        assert blank.sum() == (2 if number < 61 else 1)
        assert (question[~blank] == answer[~blank]).all()
    assert len(read_set(tmp_path / "out", "test").inputs_NL) == 1


def test_maze_versions_are_its_symmetries(mazes, tmp_path):
    """At most eight distinct versions; question and answer are transformed together."""
    build(mazes, tmp_path / "out", kind=Maze(), num_aug=1000)
    train = read_set(tmp_path / "out", "train")
    assert train.group_indices_G1.tolist() == [0, 8, 16]
    assert len({row.tobytes() for row in train.inputs_NL[:8]}) == 8
    for question, answer in zip(train.inputs_NL, train.labels_NL, strict=True):
        changed = question != answer
        assert set(question[changed].tolist()) == {2}
        assert set(answer[changed].tolist()) == {5}
        # The path from S to G is connected.
        steps = sorted(divmod(int(cell), 3) for cell in np.flatnonzero(answer > 2))
        assert reach(steps) == set(steps)


def reach(cells: list[tuple[int, int]]) -> set[tuple[int, int]]:
    reached, new = set(), {cells[0]}
    while new:
        reached |= new
        new = {one for one in cells if any(math.dist(one, other) == 1 for other in new)} - reached
    return reached


def test_subsample_and_difficulty(tmp_path):
    """Two of five training boards, deterministically; the minimum rating excludes one of two."""
    swapped = SOLVED.translate(str.maketrans("12", "21"))
    boards = [(one[:-n] + "." * n, one, str(n)) for one in (SOLVED, swapped) for n in (1, 2)]
    source = write_csv(tmp_path / "s", train=boards, test=boards)
    build(source, tmp_path / "a", subsample_size=2)
    build(source, tmp_path / "b", subsample_size=2)
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")
    assert len(read_set(tmp_path / "a", "train").inputs_NL) == 2
    assert len(read_set(tmp_path / "a", "test").inputs_NL) == 4
    build(source, tmp_path / "c", min_rating=2)
    for split in ("train", "test"):
        assert ((read_set(tmp_path / "c", split).inputs_NL == 1).sum(axis=1) == 2).all()
    build(source, tmp_path / "d", subsample_size=9)
    assert len(read_set(tmp_path / "d", "train").inputs_NL) == 4


def test_progress_and_counts(sudokus, tmp_path):
    """Progress counts the selected boards, and so does the manifest."""
    seen: list[tuple[int, int]] = []
    manifest = build(sudokus, tmp_path / "out", seen=seen, num_aug=3)
    assert seen == [(0, 2), (1, 2), (0, 1)]
    assert manifest.counts == {
        "train_boards": 2,
        "train_examples": 8,
        "test_boards": 1,
        "test_examples": 1,
    }


@pytest.mark.parametrize(
    ("question", "answer", "rating", "complaint"),
    [
        (SUDOKU[1:], SOLVED, "3", "train.csv:3: 'question': 80 cells, expected 9 x 9"),
        (SUDOKU, SOLVED + "1", "3", "train.csv:3: 'answer': 82 cells, expected 9 x 9"),
        ("x" + SUDOKU[1:], SOLVED, "3", "train.csv:3: 'question': cells are the digits 1 to 9"),
        ("/" + SUDOKU[1:], SOLVED, "3", "train.csv:3: 'question': cells are the digits 1 to 9"),
        (SUDOKU, "2" + SOLVED[1:], "3", "train.csv:3: 'answer': not every digit once"),
        (SUDOKU, SOLVED[:-1] + ".", "3", "train.csv:3: 'answer': not every digit once"),
        ("2" + SUDOKU[1:], SOLVED, "3", "train.csv:3: 'answer': contradicts the question"),
        (SUDOKU, SOLVED, "hard", "train.csv:3: 'rating': Input should be a valid integer"),
    ],
)
def test_bad_sudokus(tmp_path, question, answer, rating, complaint):
    """The error names file, line and reason, and nothing is written."""
    source = write_csv(tmp_path / "s", train=[EASY, (question, answer, rating)], test=[EASY])
    with pytest.raises(BadInputError) as error:
        build(source, tmp_path / "out", min_rating=1)
    assert complaint in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("question", "answer", "complaint"),
    [
        ("S G#####", "SoG#####", "'question': 8 cells, expected 2 x 2"),
        ("S G######", "SoG#####x", "cells are '# SGo'"),
        ("SoG######", "SoG######", "the path (o) in the answer only"),
        ("S  ######", "Soo######", "one start (S) and one goal (G)"),
        ("S G######", "SoGo#####", "in more than its path"),
        ("S G######", "S#G######", "in more than its path"),
        ("S G " + "#" * 12, "SoG " + "#" * 12, "(4, 4) cells, the first has (3, 3)"),
    ],
)
def test_bad_mazes(tmp_path, question, answer, complaint):
    """No square, another character, a path in the question, no goal, walls moved, another size."""
    source = write_csv(tmp_path / "s", train=[CORRIDOR, (question, answer, "1")], test=[CORRIDOR])
    with pytest.raises(BadInputError) as error:
        build(source, tmp_path / "out", kind=Maze())
    assert complaint in str(error.value)
    assert "train.csv:3: " in str(error.value)


def test_bad_files(sudokus, tmp_path):
    """A missing split, a missing column, and no board above the minimum rating are errors."""
    with pytest.raises(BadInputError, match="lower --min-difficulty"):
        build(sudokus, tmp_path / "out", min_rating=99)
    (sudokus / "test.csv").write_text("q,a\n1,2\n", "utf-8")
    with pytest.raises(BadInputError, match=r"test.csv:2: 'question': missing; the row has a, q"):
        build(sudokus, tmp_path / "out")
    (sudokus / "test.csv").unlink()
    with pytest.raises(BadInputError, match=r"test.csv: no such file; give the folder"):
        build(sudokus, tmp_path / "out")
