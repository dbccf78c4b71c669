"""Several data folders as one: identifiers, groups, votes, right answers, and what cannot be joined."""

import numpy as np
import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.prr import PrrDataParams
from pipeline_lib.systems.prr.data.arc_builder import ArcOptions, build_arc
from pipeline_lib.systems.prr.data.dataset_files import (
    read_identifiers,
    read_set,
    read_test_puzzles,
)
from pipeline_lib.systems.prr.data.joined import join_folders
from pipeline_lib.systems.prr.data.synthetic import build_synthetic, read_answers
from pipeline_lib.systems.prr.evaluation.arc_votes import resolve_inputs
from tests.unit.systems.prr.sample_puzzles import PUZZLES, small_subsets, write_repository


@pytest.fixture
def arc(tmp_path):
    """A function that builds a folder, whose puzzles have names with a prefix."""

    def build(name: str, *, prefix: str = "", max_side: int = 5):
        puzzles = {
            subset: {prefix + one: puzzle for one, puzzle in of_one.items()}
            for subset, of_one in PUZZLES.items()
        }
        source = write_repository(tmp_path / f"{name}-source", puzzles)
        options = ArcOptions(test_set="evaluation", num_aug=2, seed=7, max_side=max_side)
        build_arc(small_subsets(source), options, tmp_path / name)
        return tmp_path / name

    return build


def test_identifiers_of_two_folders_stay_distinct(arc, tmp_path):
    """Three puzzles with two versions each make nine names a folder: the second folder's begin at 10."""
    folders = [arc("one"), arc("two", prefix="x-")]
    manifest = join_folders(folders, tmp_path / "both")
    names = read_identifiers(tmp_path / "both")
    assert len(set(names)) == len(names) == 19
    for split in ("train", "test"):
        one, two, both = (read_set(at, split) for at in (*folders, tmp_path / "both"))
        assert both.metadata.num_puzzle_identifiers == 19
        assert both.puzzle_identifiers_P.tolist() == [
            *one.puzzle_identifiers_P.tolist(),
            *(two.puzzle_identifiers_P + 9).tolist(),
        ]
        assert both.metadata.total_groups == 2 * one.metadata.total_groups
        for field in ("inputs_NL", "labels_NL"):
            own = np.concatenate([getattr(part, field) for part in (one, two)])
            assert (getattr(both, field) == own).all()
        assert manifest.counts[split] == 2 * len(one.inputs_NL)
    puzzles = read_test_puzzles(tmp_path / "both")
    asked = {found.puzzle_id for found, _ in resolve_inputs(both, names, puzzles)}
    assert asked == puzzles.keys() == {"double", "x-double"}
    assert join_folders(folders, tmp_path / "both").digest == manifest.digest


def test_right_answers_are_joined(tmp_path):
    """Puzzles without identifiers keep the blank one; one right answer is repeated beside two."""
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder, task in zip(folders, ("sudoku4", "sudoku4-two"), strict=True):
        data = PrrDataParams(task=task, train_puzzles=4, versions=1, test_examples=3)
        build_synthetic(data, folder, seed=1)
    join_folders(folders, tmp_path / "both")
    both = read_set(tmp_path / "both", "test")
    assert both.puzzle_identifiers_P.tolist() == [0] * 6
    answers_NAL = read_answers(tmp_path / "both", both)
    assert [len(np.unique(one, axis=0)) for one in answers_NAL] == [1, 1, 1, 2, 2, 2]


def test_folders_that_cannot_be_joined(arc, tmp_path):
    """A puzzle of two folders, another canvas, and a folder that is missing, each in one line."""
    one = arc("one")
    for other, complaint in (
        (arc("again"), "again: 3 puzzles are also in .*one, such as double"),
        (arc("large", prefix="x-", max_side=6), "large: .*'seq_len': 36.*'seq_len': 25"),
        (tmp_path / "absent", "absent: no such folder"),
    ):
        with pytest.raises(BadInputError, match=complaint):
            join_folders([one, other], tmp_path / "both")
        assert not (tmp_path / "both").exists()
