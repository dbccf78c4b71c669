"""The stages of adaptive parallel reasoning (APR), in order."""

from pipeline_lib.systems.stage import Stage

_TRAIN = ("pipeline_lib.systems.apr.bodies.train",)
_TRAINING = ("seed", "adaptive.model", "adaptive.sft")
_TRAINED = ("data/adaptive", "models/adaptive-parallel", "models/adaptive-serial")
_CHOSEN = ("reports/adaptive-valid",)
_RL = ("pipeline_lib.systems.apr.bodies.rl",)

ADAPTIVE = (
    Stage(
        name="adaptive-data",
        summary="Write Countdown problems, and traces of parallel and serial searches.",
        modules=("pipeline_lib.systems.apr.bodies.data",),
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
        name="adaptive-conditions",
        summary="Choose the conditions of both models on the valid problems.",
        modules=("pipeline_lib.systems.apr.bodies.conditions",),
        function="choose",
        inputs=_TRAINED,
        params=("seed", "evaluate"),
        outputs=_CHOSEN,
        trains=True,
    ),
    Stage(
        name="adaptive-rl",
        summary="Train the model that spawns threads on rollouts of its own.",
        modules=_RL,
        function="train_parallel",
        inputs=("data/adaptive", "models/adaptive-parallel", *_CHOSEN),
        params=("seed", "adaptive.rl"),
        outputs=("models/adaptive-parallel-rl",),
        trains=True,
    ),
    Stage(
        name="adaptive-serial-rl",
        summary="Train the serial model on rollouts of its own.",
        modules=_RL,
        function="train_serial",
        inputs=("data/adaptive", "models/adaptive-serial", *_CHOSEN),
        params=("seed", "adaptive.rl"),
        outputs=("models/adaptive-serial-rl",),
        trains=True,
        beside="adaptive-rl",
    ),
    Stage(
        name="adaptive-evaluate",
        summary="Compare the models, before and after reinforcement learning, on the test problems.",
        modules=("pipeline_lib.systems.apr.bodies.evaluate",),
        function="evaluate",
        inputs=(*_TRAINED, *_CHOSEN, "models/adaptive-parallel-rl", "models/adaptive-serial-rl"),
        params=("seed", "adaptive.evaluate", "adaptive.rl.steps", "evaluate"),
        outputs=("reports/adaptive",),
        trains=True,
    ),
)
