"""Training batches depend on seed and step only; evaluation visits each example once."""

import numpy as np
import pytest
import torch

from pipeline_lib.errors import BadInputError
from pipeline_lib.systems.prr.data.dataset_files import PuzzleSet
from pipeline_lib.systems.prr.model.batches import TrainingBatches, evaluation_batches


@pytest.fixture
def data() -> PuzzleSet:
    """Group 0: two versions of a puzzle with three examples; group 1: one puzzle with one.

    The first token of an example is its number from 1.
    """
    return PuzzleSet.of(
        inputs_NL=np.array([[n, 9] for n in range(1, 8)], dtype=np.uint8),
        labels_NL=np.array([[n, 0] for n in range(1, 8)], dtype=np.uint8),
        puzzle_identifiers=[4, 5, 6],
        puzzle_indices=[0, 3, 6, 7],
        group_indices=[0, 2, 3],
        vocab_size=10,
    )


def test_a_batch_depends_on_seed_and_step_alone(data: PuzzleSet):
    """Step 5 is independent of earlier calls, and differs by seed."""
    first, second = (TrainingBatches(data, batch_size=64, seed=1) for _ in range(2))
    for step in range(5):
        first.at(step)
    assert torch.equal(first.at(5).inputs_BL, second.at(5).inputs_BL)
    other = TrainingBatches(data, batch_size=64, seed=2).at(5)
    assert not torch.equal(first.at(5).inputs_BL, other.inputs_BL)


def test_an_epoch_visits_each_puzzle_once_per_example(data: PuzzleSet):
    """Three visits for the puzzle with three examples and one for the other: four rows."""
    for step in range(20):
        batch = TrainingBatches(data, batch_size=4, seed=3).at(step)
        assert (batch.puzzle_ids_B == 6).sum() == 1


def test_rows_keep_label_and_identifier(data: PuzzleSet):
    """Examples 1 to 3 belong to identifier 4, 4 to 6 to 5, 7 to 6; all are drawn in the end."""
    batch = TrainingBatches(data, batch_size=400, seed=3).at(0)
    numbers = batch.inputs_BL[:, 0]
    assert set(numbers.tolist()) == set(range(1, 8))
    assert torch.equal(batch.labels_BL[:, 0], numbers)
    assert torch.equal(batch.puzzle_ids_B, torch.tensor([4, 4, 4, 5, 5, 5, 6])[numbers - 1])
    assert batch.real_B.all()


def test_processes_share_a_batch(data: PuzzleSet):
    """Two ranks together have the rows of one; an indivisible batch size is refused."""
    whole = TrainingBatches(data, batch_size=8, seed=3).at(2)
    parts = [TrainingBatches(data, batch_size=8, seed=3, rank=r, world=2).at(2) for r in (0, 1)]
    together = torch.stack([part.inputs_BL for part in parts], dim=1).flatten(0, 1)
    assert torch.equal(together, whole.inputs_BL)
    with pytest.raises(BadInputError, match="not a multiple of the 3 devices"):
        TrainingBatches(data, batch_size=8, seed=3, world=3)


def test_an_evaluation_sees_each_example_once(data: PuzzleSet):
    """Seven examples in batches of three: two rows of the last one are not real."""
    parts = list(evaluation_batches(data, batch_size=3))
    real = torch.cat([batch.inputs_BL[batch.real_B] for _, batch in parts])
    assert real[:, 0].tolist() == list(range(1, 8))
    ids = torch.cat([batch.puzzle_ids_B[batch.real_B] for _, batch in parts])
    assert ids.tolist() == [4, 4, 4, 5, 5, 5, 6]
    assert [places for places, _ in parts] == [range(3), range(3, 6), range(6, 7)]
    assert [len(batch.real_B) for _, batch in parts] == [3, 3, 3]
