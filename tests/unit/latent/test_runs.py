"""Training and evaluation by folders: damaged data are named before any compute."""

import io
import shutil

import numpy as np
import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.latent.made_folder import ANSWERS_NAME, build_made
from pipeline_lib.latent.runs import EvaluationPlaces, data_digest, evaluate_on, train_on
from pipeline_lib.params.latent import (
    LatentDataParams,
    LatentEvaluateParams,
    LatentModelParams,
    LatentParams,
    LatentTrainParams,
)
from pipeline_lib.storage.manifests import MANIFEST_NAME

PARAMS = LatentParams(
    data=LatentDataParams(task="sudoku4-two", train_puzzles=4, versions=2, test_examples=10),
    model=LatentModelParams(width=16, heads=2, hidden_multiple=8, num_branches=2, steps=2),
    train=LatentTrainParams(steps=2, batch_size=4),
    evaluate=LatentEvaluateParams(batch_size=4),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A made task, ``data``, and a model of two steps, ``model``."""
    root = tmp_path_factory.mktemp("made")
    build_made(PARAMS.data, root / "data", seed=7)
    train_on(root / "data", root / "model", PARAMS, seed=1)
    return root


@pytest.fixture
def data(made, tmp_path):
    """The task once more, to be spoilt."""
    shutil.copytree(made / "data", tmp_path / "data")
    return tmp_path / "data"


def test_damaged_data_are_no_data(made, data, tmp_path):
    """Every label is another, under a manifest that says otherwise: neither trained on nor evaluated."""
    path = data / "train" / "all__labels.npy"
    np.save(path, np.full_like(np.load(path), 2))
    with pytest.raises(BadInputError, match="sha256 differs"):
        train_on(data, tmp_path / "model", PARAMS, seed=1)
    places = EvaluationPlaces(data=data, models=[made / "model"], output=tmp_path / "found")
    with pytest.raises(BadInputError, match="sha256 differs"):
        evaluate_on(places, PARAMS, seed=1)


def test_data_of_another_program_are_known_by_their_files(data):
    """Without a manifest the files themselves are digested, so that a change shows."""
    (data / MANIFEST_NAME).unlink()
    before = data_digest(data)
    path = data / "train" / "all__labels.npy"
    np.save(path, np.full_like(np.load(path), 2))
    assert data_digest(data) != before


def array_file(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"junk", "not a numpy array"),
        (array_file(np.ones((5, 2, 16), dtype=np.uint8)), r"uint8 of shape \(5, 2, 16\), expected"),
        (array_file(np.ones((10, 2, 9), dtype=np.uint8)), r"uint8 of shape \(10, 2, 9\), expected"),
        (array_file(np.ones((10, 16), dtype=np.uint8)), r"uint8 of shape \(10, 16\), expected"),
        (array_file(np.ones((10, 0, 16), dtype=np.uint8)), r"shape \(10, 0, 16\), expected"),
        (array_file(np.ones((10, 2, 16))), r"float64 of shape \(10, 2, 16\), expected"),
    ],
)
def test_right_answers_that_do_not_fit(made, data, tmp_path, content, complaint):
    """No array, too few examples, other lengths, one axis less, no answer, no tokens: one line each."""
    (data / MANIFEST_NAME).unlink()
    (data / "test" / ANSWERS_NAME).write_bytes(content)
    places = EvaluationPlaces(data=data, models=[made / "model"], output=tmp_path / "found")
    with pytest.raises(BadInputError, match=f"{ANSWERS_NAME}: .*{complaint}"):
        evaluate_on(places, PARAMS, seed=1)
