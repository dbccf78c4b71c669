"""The control takes as many core passes in training."""

import pytest

from pipeline_lib.params.prr import PrrModelParams, PrrParams, PrrTrainParams
from pipeline_lib.systems.prr.bodies import control_params

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
