"""Train with peers and without from one base, and compare all arms, as one flow in a workspace.

Where no peers are named, small ones are made. Finished stages are reused, so the same command resumes a
broken run.

**Examples:**

    reasonloop classmate run
    reasonloop classmate run --profile classmate-smoke --workspace /tmp/trial
    reasonloop classmate run --profile classmate-hops --workspace /tmp/hops --seeds 7,8,9
"""

from pipeline_lib.systems.stage import Stage, System

_ENGINE = ("serve.engine", "serve.options")
_PEERS = tuple(
    f"classmate.{name}" for name in ("classmate_model_name_or_path_list", "held_out", "made_peers")
)
_DECODING = tuple(
    f"classmate.{name}"
    for name in (
        *("keep", "step", "timeout_s", "max_new_tokens", "temperature", "top_p", "do_sample"),
        *("bonus", "cuts"),
    )
)
_REWARD = tuple(
    f"classmate.{name}"
    for name in (
        *("classmate_reward_weight", "aggregation", "fusion", "gate", "relative", "missing"),
        *("num_return_sequences", "credit"),
    )
)
_TRAINING = (
    *("seed", *_ENGINE, "sample.max_new_tokens", "verify"),
    *("classmate.train", "classmate.arms"),
)

CLASSMATE = System(
    name="classmate",
    stages=(
        Stage(
            name="classmate-peers",
            summary="Make the problems, the actor's base, and peers where none are named.",
            modules=("pipeline_lib.systems.classmate.work.peers",),
            function="make_peers",
            params=(
                *("seed", "classmate.classmate_model_name_or_path_list", "classmate.made_peers"),
                *("classmate.prepare", "classmate.bootstrap"),
            ),
            outputs=("data/classmate/problems", "models/classmate/base", "models/classmate/peers"),
            trains=True,
        ),
        Stage(
            name="classmate-train",
            asks_peers=True,
            summary="Train the arms with peers.",
            modules=("pipeline_lib.systems.classmate.work.train",),
            inputs=("data/classmate/problems", "models/classmate/base", "models/classmate/peers"),
            params=(*_TRAINING, *_PEERS, *_DECODING, *_REWARD),
            outputs=("models/classmate/trained", "data/classmate/draws"),
            trains=True,
        ),
        Stage(
            name="classmate-plain",
            summary="Train the arms without peers.",
            modules=("pipeline_lib.systems.classmate.work.train",),
            function="train_plain",
            inputs=("data/classmate/problems", "models/classmate/base"),
            params=_TRAINING,
            outputs=("models/classmate/plain",),
            trains=True,
            beside="classmate-train",
        ),
        Stage(
            name="classmate-evaluate",
            asks_peers=True,
            summary="Compare the base and all arms.",
            modules=("pipeline_lib.systems.classmate.work.evaluation",),
            inputs=(
                *("data/classmate/problems", "models/classmate/base", "models/classmate/peers"),
                *("models/classmate/plain", "models/classmate/trained"),
            ),
            params=("seed", *_ENGINE, "sample", "verify", "evaluate", "classmate"),
            outputs=(
                *("data/classmate/evaluation", "reports/classmate/metrics.json"),
                *("reports/classmate/report.html", "reports/classmate/values"),
                *("reports/classmate/problems", "reports/classmate/attempts"),
            ),
            metrics=("reports/classmate/summary.json",),
            trains=True,
        ),
    ),
    labels=lambda params: (
        params.classmate.prepare.dataset,
        params.classmate.train.method,
    ),
    rollouts=lambda params: params.classmate.train.rollouts,
    preflight="pipeline_lib.systems.classmate.preflight:check_run",
)
