"""Params that `reasonloop apr run` refuses before its first stage."""

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.whole import Params
from pipeline_lib.systems.apr.stages import check_run
from pipeline_lib.systems.stage import Run


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"data": {"train_problems": 9}}, "rl.prompts=16: is above apr.data.train_problems=9"),
        ({"rl": {"children": 10}}, "rl.children=10: is above apr.data.parallel.beam_high=9"),
        ({"evaluate": {"children": 12}}, "evaluate.children=12: is above"),
    ],
)
def test_stages_that_do_not_fit(tmp_path, params, message):
    """Otherwise a later stage refuses them, after the trainings."""
    with pytest.raises(BadInputError, match=message):
        check_run(Run(root=tmp_path, params=Params.model_validate({"apr": params})), draws=True)


def test_stages_that_fit(tmp_path):
    """The defaults, the most children, and few problems without RL."""
    for params in (
        {},
        {"rl": {"children": 9}},
        {"data": {"train_problems": 9}, "rl": {"steps": 0}},
    ):
        check_run(Run(root=tmp_path, params=Params.model_validate({"apr": params})), draws=True)
