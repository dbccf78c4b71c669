"""The stages of adaptive parallel reasoning (APR), in order."""

from pipeline_lib.stages.stage import Stage

_TRAIN = ("pipeline_lib.adaptive.stages.train",)
_TRAINING = ("seed", "adaptive.model", "adaptive.sft")

ADAPTIVE = (
    Stage(
        name="adaptive-data",
        summary="Write Countdown problems, and traces of parallel and serial searches.",
        modules=("pipeline_lib.adaptive.stages.data",),
        function="make_data",
        params=("seed", "adaptive.data"),
        outputs=("data/adaptive",),
    ),
    Stage(
        name="adaptive-train",
        summary="Train the model that spawns threads.",
        modules=_TRAIN,
        function="train",
        inputs=("data/adaptive",),
        params=_TRAINING,
        outputs=("models/adaptive-parallel",),
        trains=True,
    ),
    Stage(
        name="adaptive-serial",
        summary="Train the serial model that it is compared with.",
        modules=_TRAIN,
        function="train_serial",
        inputs=("data/adaptive",),
        params=_TRAINING,
        outputs=("models/adaptive-serial",),
        trains=True,
        beside="adaptive-train",
    ),
    Stage(
        name="adaptive-evaluate",
        summary="Compare both models on the test problems.",
        modules=("pipeline_lib.adaptive.stages.evaluate",),
        function="evaluate",
        inputs=("data/adaptive", "models/adaptive-parallel", "models/adaptive-serial"),
        params=("seed", "adaptive.evaluate", "evaluate"),
        outputs=("reports/adaptive",),
        trains=True,
    ),
)
