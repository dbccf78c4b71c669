"""Training and evaluation run again if and only if one of their inputs changed."""

import pathlib
from dataclasses import dataclass, field
from typing import Any

import pytest

from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.params.prr import PrrDataParams, PrrParams
from pipeline_lib.params.whole import Params
from pipeline_lib.systems.prr.data.synthetic import build_synthetic
from pipeline_lib.systems.prr.evaluation_folder import evaluate_on
from pipeline_lib.systems.prr.training.train import train_on

DATA = {"task": "sudoku4-two", "train_puzzles": 8, "test_examples": 4}
PARAMS: dict[str, dict[str, Any]] = {
    "model": {"width": 16, "heads": 2, "hidden_multiple": 8, "num_branches": 2, "steps": 2},
    "train": {"steps": 1, "batch_size": 4},
    "evaluate": {"batch_size": 4, "pictures": 0},
}


def params_with(section: str = "model", **changes: Any) -> PrrParams:
    """Small params with ``changes`` to one section."""
    return PrrParams.model_validate(PARAMS | {section: PARAMS.get(section, {}) | changes})


@dataclass
class Place:
    """A folder with data, a model and an evaluation; counts the steps of each call."""

    folder: Any
    steps: list[int] = field(default_factory=list)
    resamples: int = 100
    control: pathlib.Path | None = None

    def train(self, params: PrrParams, *, seed: int = 1) -> int:
        """Number of steps of a call."""
        self.steps.clear()
        train_on(
            self.folder / "data", self.folder / "model", params, seed=seed,
            progress=lambda step, *_: self.steps.append(step),
        )  # fmt: skip
        return len(self.steps)

    def evaluate(self, params: PrrParams, *, seed: int = 1) -> int:
        """Number of batches of a call."""
        self.steps.clear()
        evaluate_on(
            self.folder / "data",
            [self.folder / "model"],
            self.folder / "evaluation",
            Params(seed=seed, prr=params, evaluate=EvaluateParams(resamples=self.resamples)),
            control=self.control,
            progress=lambda done, _: self.steps.append(done),
        )
        return len(self.steps)


@pytest.fixture
def place(tmp_path) -> Place:
    """Data and a trained model."""
    build_synthetic(PrrDataParams.model_validate(DATA), tmp_path / "data", seed=1)
    made = Place(folder=tmp_path)
    assert made.train(params_with()) == 1
    return made


@pytest.mark.parametrize(
    ("section", "change"),
    [
        ("model", {"num_branches": 3}),
        ("loss", {"floor": 0.1}),
        ("train", {"lr": 1e-3}),
    ],
)
def test_a_changed_param_trains_again(section, change, place):
    """Changes to model, loss and training params train again; an identical call does no step."""
    changed = params_with(section, **change)
    assert place.train(changed) == 1
    assert place.train(changed) == 0


def test_a_changed_seed_or_changed_data_train_again(place):
    """The key covers the data's digest and the seed, and no evaluation params."""
    assert place.train(params_with("evaluate", rollouts=2, noise=0.1)) == 0
    assert place.train(params_with("train", processes=2)) == 0
    assert place.train(params_with(), seed=2) == 1
    other = PrrDataParams.model_validate(DATA | {"train_puzzles": 12})
    build_synthetic(other, place.folder / "data", seed=1)
    assert place.train(params_with(), seed=2) == 1


@pytest.mark.parametrize("change", [{"steps": 1}, {"rollouts": 2, "noise": 0.1}, {"pictures": 1}])
def test_changed_evaluation_params_evaluate_again(change, place):
    """Every changed param evaluates again; an identical call predicts nothing."""
    assert place.evaluate(params_with()) == 1
    changed = params_with("evaluate", **change)
    assert place.evaluate(changed) == 1
    assert place.evaluate(changed) == 0


def test_other_intervals_and_a_control_evaluate_again(place):
    """The key covers the resamples; a control is one more batch."""
    assert place.evaluate(params_with()) == 1
    place.resamples = 200
    assert place.evaluate(params_with()) == 1
    place.control = place.folder / "control"
    train_on(place.folder / "data", place.control, params_with(num_branches=1), seed=1)
    assert place.evaluate(params_with()) == 2
    assert place.evaluate(params_with()) == 0


def test_another_model_is_evaluated_again(place):
    """The key covers the model's content, not its path."""
    assert place.evaluate(params_with()) == 1
    assert place.train(params_with(), seed=2) == 1
    assert place.evaluate(params_with()) == 1
