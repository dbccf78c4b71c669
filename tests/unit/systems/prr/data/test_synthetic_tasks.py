"""Synthetic tasks: properties of the puzzles, and determinism by seed."""

import itertools

import numpy as np
import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.seeding import child_random
from pipeline_lib.systems.prr.data import synthetic
from pipeline_lib.systems.prr.data.synthetic import make_task
from pipeline_lib.systems.prr.data.synthetic_sudoku import FOUR, SIX, Shape

NAMES = ["sudoku4", "sudoku4-two", "sudoku6", "sudoku6-two", "ambiguous"]


def all_grids(shape: Shape) -> np.ndarray:
    """Every full grid of a small Sudoku, by trying all orders of digits in all rows."""
    rows = list(itertools.permutations(range(1, shape.size + 1)))
    grids = [
        grid
        for grid in itertools.product(rows, repeat=shape.size)
        if all(len(set(column)) == shape.size for column in zip(*grid, strict=True))
        and all(
            len({cell for row in band for cell in row[left : left + shape.box_width]}) == shape.size
            for top in range(0, shape.size, shape.box_height)
            for band in [grid[top : top + shape.box_height]]
            for left in range(0, shape.size, shape.box_width)
        )
    ]
    return np.array(grids).reshape(len(grids), -1)


def test_small_sudoku_has_one_solution():
    """Of the 288 grids of size 4, just one fits the givens, and it is the label."""
    grids = all_grids(FOUR)
    assert len(grids) == 288
    made = make_task("sudoku4", train=8, test=8, versions=3, seed=1)
    for data in (made.train, made.test):
        for tokens, label in zip(data.inputs_NL, data.labels_NL, strict=True):
            given = tokens > 1
            fitting = grids[(grids[:, given] == tokens[given] - 1).all(1)]
            assert fitting.tolist() == [(label - 1).tolist()]


@pytest.mark.parametrize(("name", "answers"), [("sudoku6", 1), ("sudoku6-two", 2)])
def test_sudoku_6_agrees_with_backtracking(name: str, answers: int):
    """Plain backtracking finds exactly the answers of the task."""
    made = make_task(name, train=1, test=3, seed=5)
    for tokens, known_AL in zip(made.test.inputs_NL, made.answers_NAL, strict=True):
        found = sorted(filled((tokens - 1).tolist(), SIX, 0))
        assert len(found) == answers
        assert found == sorted((known_AL - 1).tolist())


def filled(cells: list[int], shape: Shape, cell: int) -> list[list[int]]:
    """All solutions with the cells before ``cell`` as they are."""
    if cell == len(cells):
        return [list(cells)]
    if cells[cell]:
        return filled(cells, shape, cell + 1)
    units = shape.units(cell)
    near = {
        cells[other]
        for other in range(len(cells))
        if any(a == b for a, b in zip(units, shape.units(other), strict=True))
    }
    found = []
    for digit in set(range(1, shape.size + 1)) - near:
        cells[cell] = digit
        found += filled(cells, shape, cell + 1)
    cells[cell] = 0
    return found


@pytest.mark.parametrize("name", NAMES)
def test_no_test_input_is_trained_on(name: str):
    """Test inputs are distinct and absent from training; versions of a puzzle are one group."""
    made = make_task(name, train=20, test=20, versions=3, seed=2)
    train = {row.tobytes() for row in made.train.inputs_NL}
    test = [row.tobytes() for row in made.test.inputs_NL]
    assert not train & set(test)
    assert len(set(test)) == 20
    assert made.train.metadata.total_groups == 20
    assert made.train.group_indices_G1[-1] == len(made.train.inputs_NL)


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_decides_everything(name: str):
    """Equal seeds give equal tasks, others differ; the label is one of the correct answers."""
    one, same, other = (make_task(name, train=6, test=6, seed=seed) for seed in (3, 3, 4))
    assert (one.train.labels_NL == same.train.labels_NL).all()
    assert (one.answers_NAL == same.answers_NAL).all()
    assert (one.test.inputs_NL != other.test.inputs_NL).any()
    assert (one.answers_NAL == one.test.labels_NL[:, None]).all(-1).any(-1).all()


def test_the_label_of_two_solutions_is_drawn():
    """Over 200 examples each of the two is the label 60 to 140 times (7 deviations of 7.1)."""
    made = make_task("sudoku6-two", train=1, test=200, seed=6)
    first = (made.test.labels_NL == made.answers_NAL[:, 0]).all(1).sum()
    assert 60 < first < 140


def test_the_cue_is_shown_half_the_time():
    """One answer with a cue, four without; each permutes the grid's cells."""
    made = make_task("ambiguous", train=1, test=200, seed=6)
    shown = made.test.inputs_NL[:, 0] > synthetic.NO_CUE
    assert 60 < shown.sum() < 140
    for tokens, answers_AL, has_cue in zip(
        made.test.inputs_NL, made.answers_NAL, shown, strict=True
    ):
        assert len(np.unique(answers_AL, axis=0)) == (1 if has_cue else 4)
        assert {tuple(sorted(answer)) for answer in answers_AL.tolist()} == {tuple(sorted(tokens))}


def test_the_rules_are_symmetries_of_the_square():
    """Four distinct transforms that fix the centre and map corners to corners."""
    rules = synthetic.draw_rules(child_random(1, "rules"))
    side = synthetic.SIDE
    corners = {0, side - 1, side * side - side, side * side - 1}
    assert len({tuple(move) for move in rules}) == 4
    for move in rules:
        assert sorted(move) == list(range(side * side))
        assert move[side * side // 2] == side * side // 2
        assert {move[corner] for corner in corners} == corners


ONLY_ONE = synthetic.Example(tokens=(1, 2), label=(1, 2), answers=((1, 2),))


def test_an_exhausted_task_is_refused(monkeypatch):
    """An exhausted task is an error that names the number of distinct examples."""
    monkeypatch.setattr(synthetic, "draw_example", lambda *_: ONLY_ONE)
    with pytest.raises(BadInputError, match="only 1 distinct examples"):
        make_task("ambiguous", train=1, test=1, seed=1)
