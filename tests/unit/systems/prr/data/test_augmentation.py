"""Augmentations are encoded in identifiers and inverted exactly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.seeding import child_generator
from pipeline_lib.systems.prr.data.grids import (
    NUM_DIHEDRALS,
    Augmentation,
    apply_dihedral,
    array_to_grid,
    draw_augmentation,
    grid_to_array,
    parse_version,
)

augmentations = st.builds(
    Augmentation,
    dihedral=st.integers(0, NUM_DIHEDRALS - 1),
    colours=st.permutations(range(1, 10)).map(lambda rest: (0, *rest)),
)


@pytest.mark.parametrize(
    ("dihedral", "expected"),
    [
        (0, ((1, 2, 3), (4, 5, 6))),
        (1, ((3, 6), (2, 5), (1, 4))),
        (2, ((6, 5, 4), (3, 2, 1))),
        (3, ((4, 1), (5, 2), (6, 3))),
        (4, ((3, 2, 1), (6, 5, 4))),
        (5, ((4, 5, 6), (1, 2, 3))),
        (6, ((1, 4), (2, 5), (3, 6))),
        (7, ((6, 3), (5, 2), (4, 1))),
    ],
)
def test_symmetries_by_hand(dihedral, expected):
    """Each transform of 1 2 3 / 4 5 6; 6 and 7 are the two transposes."""
    grid = grid_to_array(((1, 2, 3), (4, 5, 6)))
    assert array_to_grid(apply_dihedral(grid, dihedral)) == expected


def test_colours_are_renamed_by_their_map():
    """The map 0 3 1 2 4... sends colour 1 to 3, 2 to 1 and 3 to 2."""
    augmentation = Augmentation(colours=(0, 3, 1, 2, 4, 5, 6, 7, 8, 9))
    assert augmentation.apply(grid_to_array(((0, 1, 2, 3, 4),))).tolist() == [[0, 3, 1, 2, 4]]


@given(augmentations, st.from_regex(r"[A-Za-z0-9]{1,8}", fullmatch=True))
def test_names_round_trip(augmentation, puzzle):
    """Puzzle and augmentation are read back from the identifier."""
    assert parse_version(augmentation.name(puzzle)) == (puzzle, augmentation)


def test_names_are_those_of_trm():
    """NAME|||t3|||0987654321: rotated by 270 degrees, colours 1 to 9 reversed; identity: NAME."""
    augmentation = Augmentation(dihedral=3, colours=(0, 9, 8, 7, 6, 5, 4, 3, 2, 1))
    assert augmentation.name("0a1d4ef5") == "0a1d4ef5|||t3|||0987654321"
    assert Augmentation().name("0a1d4ef5") == "0a1d4ef5"


@pytest.mark.parametrize(
    "identifier", ["a|||t8|||0123456789", "a|||3|||0123456789", "a|||t3|||0123456788", "a|||t3"]
)
def test_other_names_are_refused(identifier):
    """An unknown symmetry, a missing t, a colour twice, no colours at all."""
    with pytest.raises(ValueError, match="is not a version identifier"):
        parse_version(identifier)


def test_drawn_versions_keep_black_and_vary():
    """Black stays black; 300 draws show every symmetry, and every colour becomes every other."""
    rng = child_generator(0, "draws")
    drawn = [draw_augmentation(rng) for _ in range(300)]
    assert {one.dihedral for one in drawn} == set(range(NUM_DIHEDRALS))
    maps = np.array([one.colours for one in drawn])
    assert (maps[:, 0] == 0).all()
    assert all(set(maps[:, colour].tolist()) == set(range(1, 10)) for colour in range(1, 10))
