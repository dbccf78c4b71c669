"""Run data, training and evaluation as one flow in a workspace; finished stages are reused.

**Examples:**

    reasonloop prr run
    reasonloop prr run --workspace /tmp/trial --set prr.data.task=sudoku4-two
"""

from pipeline_lib.systems.stage import Stage, System

_TRAINED_BY = ("seed", "prr.data", "prr.model", "prr.loss", "prr.train")

PRR = System(
    name="prr",
    stages=(
        Stage(
            name="prr-data",
            summary="Generate the puzzles or join folders, unless one folder is given.",
            modules=("pipeline_lib.systems.prr.work.data",),
            function="make_data",
            params=("seed", "prr.data"),
            outputs=("data/prr/puzzles",),
        ),
        Stage(
            name="prr-train",
            summary="Train the latent model.",
            modules=("pipeline_lib.systems.prr.work.train",),
            function="train",
            inputs=("data/prr/puzzles",),
            params=_TRAINED_BY,
            outputs=("models/prr",),
            trains=True,
            processes=lambda params: params.prr.train.processes,
        ),
        Stage(
            name="prr-control",
            summary="Train one branch for as many core passes.",
            modules=("pipeline_lib.systems.prr.work.train",),
            function="train_control",
            inputs=("data/prr/puzzles",),
            params=(*_TRAINED_BY, "prr.control"),
            outputs=("models/prr-control",),
            trains=True,
            processes=lambda params: params.prr.train.processes,
        ),
        Stage(
            name="prr-evaluate",
            summary="Evaluate the latent model, beside the control.",
            modules=("pipeline_lib.systems.prr.work.evaluation",),
            function="evaluate",
            inputs=("data/prr/puzzles", "models/prr", "models/prr-control"),
            params=(
                *("seed", "prr.data", "prr.control", "prr.train.threads", "prr.evaluate"),
                *("evaluate.resamples", "evaluate.confidence_level"),
            ),
            outputs=("reports/prr",),
            metrics=("reports/prr/summary.json",),
            trains=True,
            processes=lambda params: params.prr.train.processes,
        ),
    ),
    labels=lambda params: (params.prr.data.task,),
    own_problems=True,
)
