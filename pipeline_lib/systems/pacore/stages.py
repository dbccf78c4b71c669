"""Train a synthesizer, and compare it with votes: a small model from scratch on locks, or a policy.

Four stages: data, training, its control on plain prompts, evaluation on the test problems. Finished stages are reused.
With `pacore.start=policy` the policy of a finished `reasonloop run` draws the paths that the training reads, with
`pacore.start=base` the base policy, which is made first.

**Examples:**

    reasonloop pacore run
    reasonloop pacore run --profile locks-rivals
    reasonloop run && reasonloop pacore run --profile pacore-countdown
    reasonloop pacore run --profile pacore-smol
    reasonloop pacore run --workspace /tmp/trial --seeds 7,8,9
"""

from pipeline_lib.systems.stage import Stage, System

_ENGINE = ("serve.engine", "serve.options")
_DECODING = tuple(f"pacore.{name}" for name in ("temperature", "top_p", "max_new_tokens"))
_TRAINING = (
    *("seed", *_ENGINE, "verify", "pacore.max_new_tokens", "pacore.compaction"),
    *("pacore.start", "pacore.scratch", "pacore.episodes", "pacore.train"),
)
_TASK = "pipeline_lib.own.locks"
_TRAIN = ("pipeline_lib.systems.pacore.work.train", _TASK)

PACORE = System(
    name="pacore",
    stages=(
        Stage(
            name="pacore-data",
            summary="Make problems with tries, or draw and judge paths of the policy.",
            modules=("pipeline_lib.systems.pacore.policy_messages", _TASK),
            function="make_data",
            params=(
                *("seed", *_ENGINE, *_DECODING, "verify", "pacore.start", "pacore.scratch"),
                *("pacore.cached_paths", "sample.batch_size"),
            ),
            outputs=("data/pacore", "models/pacore-base"),
        ),
        Stage(
            name="pacore-train",
            summary="Train the synthesizer.",
            modules=_TRAIN,
            function="train",
            inputs=("data/pacore", "models/pacore-base"),
            params=_TRAINING,
            outputs=("models/pacore",),
            trains=True,
            processes=lambda params: params.pacore.train.processes,
        ),
        Stage(
            name="pacore-control",
            summary="Train the synthesizer's control, on plain prompts.",
            modules=_TRAIN,
            function="train_control",
            inputs=("data/pacore", "models/pacore-base"),
            params=_TRAINING,
            outputs=("models/pacore-control", "models/pacore-retries"),
            trains=True,
            processes=lambda params: params.pacore.train.processes,
            beside="pacore-train",
        ),
        Stage(
            name="pacore-evaluate",
            summary="Compare synthesis with votes that cost no more.",
            modules=("pipeline_lib.systems.pacore.work.evaluation", _TASK),
            function="evaluate",
            inputs=(
                *("data/pacore", "models/pacore-base", "models/pacore", "models/pacore-control"),
                "models/pacore-retries",
            ),
            params=(
                *("seed", *_ENGINE, *_DECODING, "verify", "evaluate", "report.num_examples"),
                *("pacore.last_temperature", "pacore.compaction", "pacore.summary_tokens"),
                *("pacore.start", "pacore.scratch", "pacore.evaluate", "pacore.batch_size"),
            ),
            outputs=("reports/pacore",),
            metrics=("reports/pacore/summary.json",),
        ),
    ),
    labels=lambda params: (
        "scratch" if params.pacore.start == "scratch" else params.pacore.train.method,
    ),
    rollouts=lambda params: params.pacore.train.rollouts,
    begins=lambda params: ("prepare", "bootstrap") if params.pacore.start == "base" else (),
    preflight="pipeline_lib.systems.pacore.policy_messages:check_run",
)
