"""The stages of parallel latent branches (PRR), in order."""

from pipeline_lib.systems.stage import Stage

LATENT = (
    Stage(
        name="latent-data",
        summary="Generate the puzzles, unless a folder is given.",
        modules=("pipeline_lib.systems.prr.bodies",),
        function="make_data",
        params=("seed", "latent.data"),
        outputs=("data/latent/puzzles",),
    ),
    Stage(
        name="latent-train",
        summary="Train the latent model.",
        modules=("pipeline_lib.systems.prr.bodies",),
        function="train",
        inputs=("data/latent/puzzles",),
        params=("seed", "latent.data", "latent.model", "latent.loss", "latent.train"),
        outputs=("models/latent",),
        trains=True,
    ),
    Stage(
        name="latent-evaluate",
        summary="Evaluate the latent model.",
        modules=("pipeline_lib.systems.prr.bodies",),
        function="evaluate",
        inputs=("data/latent/puzzles", "models/latent"),
        params=("seed", "latent.data", "latent.train.threads", "latent.evaluate"),
        outputs=("data/latent/evaluation",),
        trains=True,
    ),
)
