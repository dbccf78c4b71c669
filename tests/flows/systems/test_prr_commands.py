"""`reasonloop prr build-*`: data folders."""

import pytest

from flows.cli.app import main
from pipeline_lib.systems.prr.data.dataset_files import read_identifiers, read_set
from tests.unit.systems.prr.sample_boards import MAZE, MAZE_SOLVED, SOLVED, SUDOKU, write_csv
from tests.unit.systems.prr.sample_puzzles import write_combined, write_repository


@pytest.fixture
def reasonloop(capsys, tmp_path, monkeypatch):
    """The command in this process: exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    write_repository(tmp_path / "arc")
    write_combined(tmp_path / "kaggle")
    write_csv(tmp_path / "sudoku", train=[(SUDOKU, SOLVED, "1")], test=[(SUDOKU, SOLVED, "1")])
    write_csv(tmp_path / "maze", train=[(MAZE, MAZE_SOLVED, "1")], test=[(MAZE, MAZE_SOLVED, "1")])

    def call(line):
        with pytest.raises(SystemExit) as stopped:
            main(["prr", *line.split()])
        shown = capsys.readouterr()
        return stopped.value.code, shown.out, shown.err

    return call


def test_build_arc(reasonloop, tmp_path):
    """Both layouts; the output has counts and the kind of test set."""
    code, shown, error = reasonloop("build-arc arc --output a --num-aug 3 --max-side 5")
    assert (code, error) == (0, "")
    assert "evaluation test inputs          2" in shown
    assert "transductive" in shown
    assert read_set(tmp_path / "a", "train").metadata.seq_len == 25
    assert reasonloop("build-arc kaggle/arc-agi --output b --num-aug 3 --max-side 5")[0] == 0
    assert read_identifiers(tmp_path / "a") == read_identifiers(tmp_path / "b")


def test_build_arc_takes_several_subsets(reasonloop, tmp_path):
    """One option with several names, as in TRM, one with its own folder."""
    line = "build-arc kaggle --output a --subsets evaluation more=arc/training --num-aug 0"
    assert reasonloop(line)[0] == 0
    assert read_identifiers(tmp_path / "a") == ["<blank>", "double", "fill", "mirror"]


def test_build_sudoku_and_maze(reasonloop, tmp_path):
    """One training board with two augmentations, and with all eight symmetries."""
    assert reasonloop("build-sudoku sudoku --output a --num-aug 2")[0] == 0
    assert len(read_set(tmp_path / "a", "train").inputs_NL) == 3
    assert reasonloop("build-maze maze --output b --aug")[0] == 0
    assert len(read_set(tmp_path / "b", "train").inputs_NL) == 8


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("build-arc arc", "--output"),
        ("build-arc nowhere --output out", "no subset 'training'"),
        ("build-arc arc --output out --num-aug -1", "Must be >= 0"),
        ("build-arc arc --output out --max-side 31", "Must be <= 30"),
        ("build-arc arc --output arc/training", "holds other files"),
        ("build-sudoku maze --output out", "train.csv:2: 'question': 9 cells, expected 9 x 9"),
        ("build-sudoku sudoku --output out --subsample-size 0", "Must be >= 1"),
        ("build-maze arc --output out", "train.csv: no such file"),
    ],
)
def test_bad_input_is_one_line(reasonloop, tmp_path, line, words):
    """Problem, place and remedy in one line, exit code 2, and no file is written."""
    before = sorted(tmp_path.rglob("*"))
    code, _, error = reasonloop(line)
    assert code == 2
    assert words in error
    assert error.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before
