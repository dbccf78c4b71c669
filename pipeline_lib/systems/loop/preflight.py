"""Checks before a run: what its params name exists."""

import pathlib

from pipeline_lib.engines.known.table import check_own_engine
from pipeline_lib.engines.running_engine import attach, check_model
from pipeline_lib.errors import BadInputError, errors_at
from pipeline_lib.params.whole import Params
from pipeline_lib.problems.loading import GENERATED
from pipeline_lib.problems.splits import evaluation_problems, make_splits
from pipeline_lib.systems.loop.draw import round_draw
from pipeline_lib.systems.stage import Run

_PACKED = (".gguf", ".whl")


def check_run(run: Run, *, draws: bool = True) -> None:
    """Check what the params name: data set, model, engine; with ``draws`` also that the engine is installed.

    Raises:
        BadInputError: one of them cannot be used by the loop.
    """
    params = run.params
    if params.prepare.dataset not in GENERATED:
        # The stage `prepare` checks golds, in another process.
        make_splits(params.prepare, seed=params.seed, gold_problem=lambda _: None)
    for one in params.evaluate.sets:
        evaluation_problems(one, seed=params.seed, gold_problem=lambda _: None)
    if params.bootstrap.model is not None:
        _check_model(params.bootstrap.model)
    if params.train.rollouts == "stored":
        _check_stored(params)
    check_own_engine(params.serve, is_started=draws)
    if draws and params.sample.drawn_by_server:
        draw = round_draw(run)
        attach(draw.serve, by_chat=draw.sample.server.tokenizer is None, key="sample.server")


def _check_stored(params: Params) -> None:
    """BadInputError: sampling keeps no log-probabilities, or not those of the training's prompts at a temperature of 1."""
    sample, needed = (
        params.sample,
        {"temperature": 1.0, "top_p": 1.0, "shots": 0, "keep_tokens": True},
    )
    for name, value in needed.items():
        if getattr(sample, name) != value:
            raise BadInputError(
                f"train.rollouts=stored: sample.{name}={getattr(sample, name)}; training needs the log-probabilities "
                f"by which the paths were drawn, which are stored only with sample.{name}={str(value).lower()}"
            )
    if params.train.group_size > sample.num_paths:
        raise BadInputError(
            f"train.rollouts=stored: train.group_size={params.train.group_size} of sample.num_paths="
            f"{sample.num_paths} stored paths; raise the second"
        )


def _check_model(model: str) -> None:
    path = pathlib.Path(model)
    if model.lower().endswith(_PACKED) or (
        any(path.glob("*.gguf")) and not (path / "config.json").exists()
    ):
        raise BadInputError(
            f"bootstrap.model: {model} is a GGUF model; convert it with "
            "`reasonloop import-model FILE --output FOLDER`, and give FOLDER"
        )
    with errors_at("bootstrap.model"):
        check_model(model)
