"""The stages of parallel latent branches (PRR), in order."""

from pipeline_lib.systems.stage import Stage, System

PRR = System(
    name="prr",
    stages=(
        Stage(
            name="prr-data",
            summary="Generate the puzzles, unless a folder is given.",
            modules=("pipeline_lib.systems.prr.bodies",),
            function="make_data",
            params=("seed", "prr.data"),
            outputs=("data/prr/puzzles",),
        ),
        Stage(
            name="prr-train",
            summary="Train the latent model.",
            modules=("pipeline_lib.systems.prr.bodies",),
            function="train",
            inputs=("data/prr/puzzles",),
            params=("seed", "prr.data", "prr.model", "prr.loss", "prr.train"),
            outputs=("models/prr",),
            trains=True,
        ),
        Stage(
            name="prr-evaluate",
            summary="Evaluate the latent model.",
            modules=("pipeline_lib.systems.prr.bodies",),
            function="evaluate",
            inputs=("data/prr/puzzles", "models/prr"),
            params=("seed", "prr.data", "prr.train.threads", "prr.evaluate"),
            outputs=("data/prr/evaluation",),
            trains=True,
        ),
    ),
    labels=lambda params: (params.prr.data.task,),
    preflight="pipeline_lib.systems.prr.preflight:check_run",
)
