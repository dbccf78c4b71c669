"""Train a synthesizer from the policy of a finished `reasonloop run`, and compare it with votes.

Four stages in the same workspace: judged paths of the policy for the train problems, training, its control
on plain prompts, evaluation on the test problems. Finished stages are reused. With `pacore.start=base` no run is needed:
problems and base policy are made first.

**Examples:**

    reasonloop pacore run
    reasonloop pacore run --profile pacore-smol
    reasonloop pacore run --workspace /tmp/trial --set pacore.train.method=grpo
"""

from pipeline_lib.systems.stage import Stage, System

_ENGINE = ("serve.engine", "serve.options")
_DECODING = tuple(f"pacore.{name}" for name in ("temperature", "top_p", "max_new_tokens"))
_TRAINING = (
    *("seed", *_ENGINE, "verify", "pacore.max_new_tokens", "pacore.compaction"),
    *("pacore.episodes", "pacore.train"),
)
_TRAIN = ("pipeline_lib.systems.pacore.work.train",)

PACORE = System(
    name="pacore",
    stages=(
        Stage(
            name="pacore-data",
            summary="Draw and judge paths of the policy, the references of training.",
            modules=("pipeline_lib.systems.pacore.policy_messages",),
            function="make_data",
            imported=("data/problems/train", "models/policy"),
            params=(
                *("seed", *_ENGINE, *_DECODING, "verify"),
                *("pacore.cached_paths", "sample.batch_size"),
            ),
            outputs=("data/pacore", "models/pacore-base"),
        ),
        Stage(
            name="pacore-train",
            summary="Train the synthesizer.",
            modules=_TRAIN,
            function="train",
            imported=("data/problems/train",),
            inputs=("data/pacore", "models/pacore-base"),
            params=_TRAINING,
            outputs=("models/pacore",),
            trains=True,
        ),
        Stage(
            name="pacore-control",
            summary="Train the synthesizer's control, on plain prompts.",
            modules=_TRAIN,
            function="train_control",
            imported=("data/problems/train",),
            inputs=("data/pacore", "models/pacore-base"),
            params=_TRAINING,
            outputs=("models/pacore-control",),
            trains=True,
            beside="pacore-train",
        ),
        Stage(
            name="pacore-evaluate",
            summary="Compare synthesis with votes that cost no more.",
            modules=("pipeline_lib.systems.pacore.work.evaluation",),
            function="evaluate",
            imported=("data/problems/test",),
            inputs=("models/pacore-base", "models/pacore", "models/pacore-control"),
            params=(
                *("seed", *_ENGINE, *_DECODING, "verify", "evaluate", "report.num_examples"),
                *("pacore.last_temperature", "pacore.compaction", "pacore.summary_tokens"),
                *("pacore.evaluate", "pacore.batch_size"),
            ),
            outputs=("reports/pacore",),
            metrics=("reports/pacore/summary.json",),
        ),
    ),
    labels=lambda params: (params.pacore.train.method,),
    rollouts=lambda params: params.pacore.train.rollouts,
    begins=lambda params: ("prepare", "bootstrap") if params.pacore.start == "base" else (),
    preflight="pipeline_lib.systems.pacore.policy_messages:check_run",
)
