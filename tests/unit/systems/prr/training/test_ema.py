"""The average of a model's weights."""

import pytest
from torch import nn

from pipeline_lib.systems.prr.training.ema import Ema


def made() -> tuple[nn.Linear, Ema]:
    """One weight at 1, averaged with decay 3/4."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 1.0)
    return model, Ema(model, decay=0.75)


def test_average_by_hand():
    """1, then 3/4 x 1 + 1/4 x 5 = 2, then 3/4 x 2 + 1/4 x 6 = 3."""
    model, ema = made()
    for value, average in ((5.0, 2.0), (6.0, 3.0)):
        nn.init.constant_(model.weight, value)
        ema.update()
        assert ema.state_dict()["weight"].item() == pytest.approx(average)


def test_the_average_is_applied_within_the_block():
    """The trained weights are restored after the block, also after an exception."""
    model, ema = made()
    nn.init.constant_(model.weight, 5.0)
    ema.update()
    with ema.applied():
        assert model.weight.item() == 2
    assert model.weight.item() == 5

    def failing() -> None:
        with ema.applied():
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        failing()
    assert model.weight.item() == 5
