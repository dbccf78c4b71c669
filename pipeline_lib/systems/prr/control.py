"""The control of PRR: the same model with one branch, trained for as many core passes."""

from pipeline_lib.params.prr import PrrParams
from pipeline_lib.systems.prr.model.branches import core_passes


def control_params(params: PrrParams) -> PrrParams | None:
    """Params of the control; None without one, or if the model has one branch itself.

    A step takes as many rows, of fewer core passes each, so there are more steps: K times as many, but for the
    passes that score branches. Data, order, rates and seed are the same.
    """
    model, train = params.model, params.train
    if not params.control or model.num_branches == 1:
        return None
    one = model.model_copy(update={"num_branches": 1})
    ratio = core_passes(model, model.steps) / core_passes(one, one.steps)
    longer = train.model_copy(update={"steps": round(train.steps * ratio)})
    return params.model_copy(update={"model": one, "train": longer})
