"""The folder of the puzzles and the params of the control, for several stages."""

import pathlib

from pipeline_lib.params.prr import PrrParams
from pipeline_lib.systems.prr.model.branches import core_passes
from pipeline_lib.systems.stage import Run


def puzzles_of(run: Run) -> pathlib.Path:
    """Folder of the puzzles: the given one, or the workspace's, which joins several."""
    folder = run.params.prr.data.folder
    return pathlib.Path(folder).resolve() if isinstance(folder, str) else run.workspace.prr.data


def control_params(params: PrrParams) -> PrrParams | None:
    """Params of the control: the same model with one branch, trained for as many core passes.

    A step takes as many rows, of fewer core passes each, so there are more steps: K times as many, but for the
    passes that score branches. Data, order, rates and seed are the same. None without a control, or if the model has
    one branch itself.
    """
    model, train = params.model, params.train
    if not params.control or model.num_branches == 1:
        return None
    one = model.model_copy(update={"num_branches": 1})
    ratio = core_passes(model, model.steps) / core_passes(one, one.steps)
    longer = train.model_copy(update={"steps": round(train.steps * ratio)})
    return params.model_copy(update={"model": one, "train": longer})
