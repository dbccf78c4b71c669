"""Training and evaluation by folders: damaged data are named before any compute; the control's core passes."""

import io
import pathlib
import shutil

import numpy as np
import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.prr import (
    PrrDataParams,
    PrrEvaluateParams,
    PrrModelParams,
    PrrParams,
    PrrTrainParams,
)
from pipeline_lib.params.whole import Params
from pipeline_lib.store.manifests import MANIFEST_NAME
from pipeline_lib.systems.prr.data.dataset_files import PuzzleSet, data_digest, read_set
from pipeline_lib.systems.prr.data.set_writer import write_set
from pipeline_lib.systems.prr.data.synthetic import ANSWERS_NAME, build_synthetic
from pipeline_lib.systems.prr.evaluation_folder import evaluate_on, show_on
from pipeline_lib.systems.prr.settings import control_params
from pipeline_lib.systems.prr.training.train import train_on

PRR = PrrParams(
    data=PrrDataParams(task="sudoku4-two", train_puzzles=4, versions=2, test_examples=10),
    model=PrrModelParams(width=16, heads=2, hidden_multiple=8, num_branches=2, steps=2),
    train=PrrTrainParams(steps=2, batch_size=4),
    evaluate=PrrEvaluateParams(batch_size=4),
)
PARAMS = Params(seed=1, prr=PRR)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A synthetic task, ``data``, and a model of two steps, ``model``."""
    root = tmp_path_factory.mktemp("made")
    build_synthetic(PRR.data, root / "data", seed=7)
    train_on(root / "data", root / "model", PRR, seed=1)
    return root


@pytest.fixture
def data(made, tmp_path):
    """A copy of the task, to be damaged."""
    shutil.copytree(made / "data", tmp_path / "data")
    return tmp_path / "data"


def test_damaged_data_are_refused(made, data, tmp_path):
    """Labels that differ from the manifest's digest are neither trained on nor evaluated."""
    path = data / "train" / "all__labels.npy"
    np.save(path, np.full_like(np.load(path), 2))
    with pytest.raises(BadInputError, match="sha256 differs"):
        train_on(data, tmp_path / "model", PRR, seed=1)
    with pytest.raises(BadInputError, match="sha256 differs"):
        evaluate_on(data, [made / "model"], tmp_path / "found", PARAMS)


def test_data_without_a_manifest_are_digested_by_file(data):
    """Without a manifest the digest covers the files, so a change is detected."""
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
        (
            array_file(np.ones((10, 16), dtype=np.uint8)),
            "uint8 with 2 axes, expected integers with 3",
        ),
        (array_file(np.ones((10, 0, 16), dtype=np.uint8)), r"shape \(10, 0, 16\), expected"),
        (array_file(np.ones((10, 2, 16))), "float64 with 3 axes, expected integers with 3"),
    ],
)
def test_invalid_files_of_correct_answers(made, data, tmp_path, content, complaint):
    """A wrong format, shape or dtype is a one-line error."""
    (data / MANIFEST_NAME).unlink()
    (data / "test" / ANSWERS_NAME).write_bytes(content)
    with pytest.raises(BadInputError, match=f"{ANSWERS_NAME}: .*{complaint}"):
        evaluate_on(data, [made / "model"], tmp_path / "found", PARAMS)


def pictures(folder: pathlib.Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "pictures").iterdir()}


def test_show_draws_the_pictures_of_the_evaluation(made, tmp_path):
    """Six of ten examples in batches of four, with noise: both draw identical pictures."""
    noisy = PrrEvaluateParams(batch_size=4, pictures=6, rollouts=2, noise=0.5)
    params = PARAMS.model_copy(update={"prr": PRR.model_copy(update={"evaluate": noisy})})
    data, model = made / "data", made / "model"
    evaluate_on(data, [model], tmp_path / "found", params)
    drawn = show_on(data, model, tmp_path / "drawn", params, count=6)
    found = pictures(tmp_path / "found")
    assert sorted(found) == [f"example-00{number}.svg" for number in range(6)]
    assert (drawn, pictures(tmp_path / "drawn")) == (6, found)


def test_more_pictures_than_examples(made, tmp_path):
    """All ten examples are drawn."""
    drawn = show_on(made / "data", made / "model", tmp_path / "drawn", PARAMS, count=99)
    assert (drawn, len(pictures(tmp_path / "drawn"))) == (10, 10)


def test_no_example(made, data, tmp_path):
    """An empty test split is a one-line error: nothing can be drawn or judged."""
    full = read_set(data, "test")
    empty = PuzzleSet.of(
        inputs_NL=full.inputs_NL[:0],
        labels_NL=full.labels_NL[:0],
        puzzle_identifiers=[],
        puzzle_indices=[0],
        group_indices=[0],
        vocab_size=full.metadata.vocab_size,
    )
    shutil.rmtree(data / "test")
    (data / MANIFEST_NAME).unlink()
    write_set(data, "test", empty)
    with pytest.raises(BadInputError, match="no example"):
        show_on(data, made / "model", tmp_path / "drawn", PARAMS, count=1)
    with pytest.raises(BadInputError, match="no example"):
        evaluate_on(data, [made / "model"], tmp_path / "found", PARAMS)
    assert not [*tmp_path.glob("drawn"), *tmp_path.glob("found")]


TRAIN = PrrTrainParams(steps=10)


@pytest.mark.parametrize(
    ("model", "steps"),
    [
        # 4 branches of 8 passes against 1.
        ({"num_branches": 4}, 40),
        # With 3 scorings of half a pass each, 4 (8 + 3 / 2) = 38 against 8 + 1 / 2: 44.7 steps for 10.
        (
            {
                "num_branches": 4,
                "scorer_checks": True,
                "layers": 2,
                "alpha": 0.1,
                "comm_interval": 3,
            },
            45,
        ),
    ],
)
def test_the_control_has_more_steps_of_one_branch(model, steps):
    params = PrrParams(model=PrrModelParams(steps=8, **model), train=TRAIN)
    control = control_params(params)
    assert control is not None
    assert control.train == TRAIN.model_copy(update={"steps": steps})
    assert control.model == params.model.model_copy(update={"num_branches": 1})


def test_one_branch_has_no_control():
    """Nor has a run that asks for none."""
    assert control_params(PrrParams(model=PrrModelParams(num_branches=1))) is None
    assert control_params(PrrParams(control=False)) is None
