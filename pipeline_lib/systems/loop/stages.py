"""Run the whole loop: prepare, bootstrap, sample, verify, build, train, evaluate, report.

Finished stages and shards are reused, so the same command resumes a broken run.

**Examples:**

    reasonloop run
    reasonloop run --workspace /tmp/trial --profile smoke --set train.lr=1e-4
    reasonloop run --engine vllm
    reasonloop run --workspace /tmp/trial --seeds 7,8,9
"""

from pipeline_lib.systems.stage import Stage, System

_ENGINE = ("serve.engine", "serve.options")
_CONTROL = (
    *("control", "method", "lr", "steps", "batch_size", "micro_batch_size", "warmup_fraction"),
    *("gradient_checkpointing",),
    *("group_size", "rollouts", "updates_per_rollout", "warm_start_steps", "warm_start_batch_size"),
    *("warm_start_lr", "checkpoint_every", "threads", "lora", "sharding"),
)
"""Params of training that the control's schedule and budget follow."""

LOOP = System(
    name="loop",
    stages=(
        Stage(
            name="prepare",
            summary="Load or generate the problems and split them.",
            modules=("pipeline_lib.systems.loop.prepare",),
            function="prepare",
            imported=("data/raw",),
            params=("seed", "prepare"),
            outputs=("data/problems",),
        ),
        Stage(
            name="bootstrap",
            summary="Make the base policy, or copy a given model.",
            modules=("pipeline_lib.systems.loop.bootstrap",),
            function="bootstrap",
            inputs=("data/problems",),
            params=("seed", "bootstrap"),
            outputs=("models/base",),
            trains=True,
        ),
        Stage(
            name="sample",
            summary="Draw N paths per problem.",
            modules=("pipeline_lib.systems.loop.sample",),
            inputs=("data/problems", "models/base"),
            params=("seed", *_ENGINE, "sample"),
            outputs=("data/paths",),
            in_rounds=True,
            fans_out="always",
        ),
        Stage(
            name="verify",
            summary="Judge every path.",
            modules=("pipeline_lib.systems.loop.verify",),
            inputs=("data/problems", "data/paths"),
            params=("verify",),
            outputs=("data/verdicts",),
            in_rounds=True,
            fans_out="always",
        ),
        Stage(
            name="build",
            summary="Build training data from the judged paths.",
            modules=("pipeline_lib.systems.loop.build",),
            function="build",
            inputs=("data/problems", "data/paths", "data/verdicts", "models/base"),
            params=("seed", "bootstrap.validation_fraction", "build", "train.method"),
            outputs=("data/traindata",),
            in_rounds=True,
        ),
        Stage(
            name="train",
            summary="Train the policy; then all later rounds.",
            modules=(
                "pipeline_lib.systems.loop.train",
                "pipeline_lib.systems.loop.sample",
                "pipeline_lib.systems.loop.verify",
                "pipeline_lib.systems.loop.build",
            ),
            function="train",
            inputs=("data/problems", "data/paths", "data/traindata", "models/base"),
            params=(
                *("seed", *_ENGINE, "rounds", "bootstrap.validation_fraction"),
                *("train", "verify", "sample", "build"),
            ),
            outputs=("models/policy", "models/rounds", "data/rounds"),
            in_rounds=True,
            fans_out="in later rounds",
            trains=True,
            processes=lambda params: params.train.processes,
        ),
        Stage(
            name="control",
            summary="Train the equal-compute control.",
            modules=("pipeline_lib.systems.loop.control",),
            function="control",
            inputs=("data/problems", "data/paths", "models/base"),
            params=(
                *("seed", "rounds", "bootstrap.model", "bootstrap.validation_fraction"),
                "sample.server.relative_cost",
                *(f"train.{name}" for name in _CONTROL),
            ),
            outputs=("models/control",),
            trains=True,
            processes=lambda params: params.train.processes,
            beside="train",
        ),
        Stage(
            name="evaluate",
            summary="Compare base, control and trained policy on held-out problems.",
            modules=(
                "pipeline_lib.systems.loop.evaluate",
                "pipeline_lib.systems.loop.sample",
                "pipeline_lib.systems.loop.verify",
            ),
            inputs=("data/problems", "models/base", "models/control", "models/policy"),
            imported=("data/raw",),
            params=(
                *("seed", *_ENGINE, "sample", "verify"),
                *("evaluate", "rounds", "train.control"),
                *("bootstrap.model", "bootstrap.format_steps"),
            ),
            outputs=("data/evaluation",),
            fans_out="always",
        ),
        Stage(
            name="report",
            summary="Write metrics, plots, report and model card.",
            modules=("pipeline_lib.systems.loop.report",),
            inputs=(
                *(
                    "data/problems",
                    "data/paths",
                    "data/traindata",
                    "data/rounds",
                    "data/evaluation",
                ),
                *(
                    "data/verdicts",
                    "models/base",
                    "models/control",
                    "models/policy",
                    "models/rounds",
                ),
            ),
            params=(
                *("seed", "rounds", "prepare", "bootstrap", "sample"),
                *("verify", "build", "train", "evaluate", "report"),
            ),
            outputs=(
                *("reports/report.html", "reports/model_card.md"),
                *("reports/metrics.json", "reports/loop", "reports/plots"),
            ),
            metrics=("reports/summary.json",),
        ),
    ),
    labels=lambda params: (params.prepare.dataset, params.train.method),
    rollouts=lambda params: params.train.rollouts,
    preflight="pipeline_lib.systems.loop.preflight:check_run",
)
