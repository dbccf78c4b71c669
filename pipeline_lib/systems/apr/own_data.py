"""Problems of a task of one's own that threads are trained on: not known to trainings, which need no judge of golds."""

from collections.abc import Mapping, Sequence

from pipeline_lib.errors import errors_at
from pipeline_lib.params.paths import PrepareParams
from pipeline_lib.params.whole import Params
from pipeline_lib.params_file import on_task
from pipeline_lib.records import Problem
from pipeline_lib.sampling.splits import checked_splits
from pipeline_lib.systems.apr.data_folder import OwnData, Split


def on_own_task(params: Params) -> Params:
    """The params on the task of one's own that threads are trained on, if they are."""
    data = params.apr.data
    if data.form != "tries":
        return params
    prepare = PrepareParams(
        dataset=data.task,
        train_problems=data.train_problems,
        test_problems=data.test_problems,
        bootstrap_problems=data.valid_problems,
    )
    with errors_at("apr.data.task"):
        return on_task(params, prepare)


def own_data(params: Params) -> OwnData | None:
    """The data of a task of one's own; None of the others."""
    if params.apr.data.form != "tries":
        return None
    prepare = on_own_task(params).prepare

    def draw() -> Mapping[Split, Sequence[Problem]]:
        found = checked_splits(prepare, seed=params.seed)
        return {"test": found.test, "valid": found.bootstrap, "train": found.train}

    return OwnData(prepare=prepare, draw=draw)
