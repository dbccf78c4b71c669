"""Run data, both trainings of a parallel and a serial model, and the comparison as one flow in a workspace.

The condition of each model is the most accurate one on the valid problems. Finished stages are reused, so the
same command resumes a broken run.

**Examples:**

    reasonloop apr run
    reasonloop apr run --workspace /tmp/trial --set apr.sft.tokens=4000000
"""

from functools import partial

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.whole import Params
from pipeline_lib.systems.stage import Run, Stage, System

_TRAINING = ("seed", "apr.model", "apr.sft")
_TRAINED = ("data/apr", "models/apr-parallel", "models/apr-serial")
_CHOSEN = ("reports/apr-valid",)
_AFTER_RL = ("models/apr-parallel-rl", "models/apr-serial-rl", "models/apr-terse-rl")


def _processes(params: Params) -> int:
    return params.apr.processes


_trained = partial(
    Stage,
    modules=("pipeline_lib.systems.apr.work.train",),
    inputs=("data/apr",),
    trains=True,
    processes=_processes,
)
_reinforced = partial(
    Stage,
    modules=("pipeline_lib.systems.apr.work.rl",),
    params=("seed", "verify", "serve.engine", "serve.options", "apr.rl", "apr.model.lora"),
    trains=True,
    processes=_processes,
)

APR = System(
    name="apr",
    stages=(
        Stage(
            name="apr-data",
            summary="Write Countdown problems, and traces of parallel and serial searches.",
            modules=("pipeline_lib.systems.apr.work.data",),
            function="make_data",
            params=("seed", "apr.data"),
            outputs=("data/apr",),
        ),
        _trained(
            name="apr-train",
            summary="Train the model that spawns threads.",
            function="train",
            params=_TRAINING,
            outputs=("models/apr-parallel",),
        ),
        _trained(
            name="apr-serial",
            summary="Train the serial model that it is compared with.",
            function="train_serial",
            params=_TRAINING,
            outputs=("models/apr-serial",),
            beside="apr-train",
        ),
        _trained(
            name="apr-terse",
            summary="Train the serial model that writes calculations alone, on questions in parts.",
            function="train_terse",
            params=(*_TRAINING, "apr.data.task"),
            outputs=("models/apr-terse",),
            beside="apr-train",
        ),
        Stage(
            name="apr-conditions",
            summary="Choose the conditions of both models on the valid problems.",
            modules=("pipeline_lib.systems.apr.work.evaluation",),
            function="choose",
            inputs=_TRAINED,
            params=("seed", "verify", "evaluate"),
            outputs=_CHOSEN,
            trains=True,
        ),
        _reinforced(
            name="apr-rl",
            summary="Train the model that spawns threads on rollouts of its own.",
            function="train_parallel",
            inputs=("data/apr", "models/apr-parallel", *_CHOSEN),
            outputs=("models/apr-parallel-rl",),
        ),
        _reinforced(
            name="apr-serial-rl",
            summary="Train the serial model on rollouts of its own.",
            function="train_serial",
            inputs=("data/apr", "models/apr-serial", *_CHOSEN),
            outputs=("models/apr-serial-rl",),
            beside="apr-rl",
        ),
        _reinforced(
            name="apr-terse-rl",
            summary="Train the terse serial model on rollouts of its own.",
            function="train_terse",
            inputs=("data/apr", "models/apr-terse", *_CHOSEN),
            outputs=("models/apr-terse-rl",),
            beside="apr-rl",
        ),
        Stage(
            name="apr-evaluate",
            summary="Compare the models, before and after reinforcement learning, on the test problems.",
            modules=("pipeline_lib.systems.apr.work.evaluation",),
            function="evaluate",
            inputs=(*_TRAINED, "models/apr-terse", *_CHOSEN, *_AFTER_RL),
            params=(
                *("seed", "verify", "evaluate", "apr.data.task", "apr.model.base"),
                *("apr.evaluate", "apr.rl.steps"),
            ),
            outputs=("reports/apr",),
            metrics=("reports/apr/summary.json",),
            trains=True,
        ),
    ),
    labels=lambda params: (params.apr.data.form,),
    rollouts=lambda params: params.apr.rl.rollouts,
    own_problems=True,
    preflight="pipeline_lib.systems.apr.stages:check_run",
)


def check_run(run: Run, *, draws: bool) -> None:
    """Check that the stages of ``run`` fit each other.

    Raises:
        BadInputError: a language model without questions in words, or the reverse; more problems in a step of RL
            than there are; more children than are trained on; a named function that cannot be imported.
    """
    del draws  # the embedded engine is always installed
    from pipeline_lib.systems.apr.task import load_named  # noqa: PLC0415 - read with every command

    params = run.params.apr
    data, rl = params.data, params.rl
    is_words = params.model.base is not None
    if data.form != "tries" and (data.form == "parts") != is_words:
        raise BadInputError(
            f"apr.data.task={data.task} with apr.model.base={params.model.base}: questions in words are for a language "
            "model, searches for a model of their own; set both or none"
        )
    for key in ("rollout", "grammar"):
        if rl.steps and (name := getattr(rl, key)) is not None:
            load_named(name, key=f"apr.rl.{key}")
    if rl.steps and rl.prompts > data.train_problems:
        raise BadInputError(
            f"apr.rl.prompts={rl.prompts}: is above apr.data.train_problems={data.train_problems}; "
            "lower it"
        )
    most = data.parallel.beam_high
    for name, children in (("rl", rl.children), ("evaluate", params.evaluate.children)):
        if children is not None and children > most:
            raise BadInputError(
                f"apr.{name}.children={children}: is above apr.data.parallel.beam_high={most}, the "
                "most that a model is trained on; lower it"
            )
