"""Checks of the params before a server or a worker is started."""

import pathlib

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.whole import Params
from pipeline_lib.problems.splits import make_splits
from pipeline_lib.problems.table import GENERATED
from pipeline_lib.serving.engines.table import ENGINES, engine_named


def check_params(params: Params) -> None:
    """Check the data set, the model and the engine that the params name.

    Raises:
        BadInputError: one of them cannot be used by the loop.
    """
    if params.prepare.dataset != GENERATED:
        # The stage `prepare` checks golds, in another process.
        make_splits(params.prepare, seed=params.seed, gold_problem=lambda _: None)
    model = params.bootstrap.model
    if model is not None and _is_path(model) and not pathlib.Path(model).is_dir():
        raise BadInputError(f"bootstrap.model: {model} is not a folder; give one, or a hub id")
    if engine_named(params.serve.engine).is_external:
        others = [name for name, engine in ENGINES.items() if not engine.is_external]
        raise BadInputError(
            f"serve.engine={params.serve.engine}: the loop draws from policies that it trains, and "
            f"a running server has its own model; set one of {', '.join(others)} (`reasonloop "
            "sample` can use a running server)"
        )


def _is_path(model: str) -> bool:
    """True if ``model`` can only be a folder: a hub id is NAME or OWNER/NAME."""
    return model.startswith((".", "/", "~")) or model.count("/") > 1
