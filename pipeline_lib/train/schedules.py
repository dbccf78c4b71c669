"""Schedules of the phases of a training, from its params."""

from dataclasses import replace

from pipeline_lib.params.train import TrainParams
from pipeline_lib.train.phases import Schedule


def schedule_stored_rows(params: TrainParams) -> Schedule:
    """SFT and DPO: sequences or pairs, with a cosine decay."""
    return Schedule(
        steps=params.steps,
        lr=params.lr,
        batch_size=params.batch_size,
        micro_batch_size=_micro_batch_size(params, params.batch_size),
        shape="cosine",
        warmup_fraction=params.warmup_fraction,
        checkpoint_every=params.checkpoint_every,
        gradient_checkpointing=params.gradient_checkpointing,
    )


def schedule_warm_start(params: TrainParams) -> Schedule:
    """SFT before an online method."""
    return replace(
        schedule_stored_rows(params),
        steps=params.warm_start_steps,
        lr=params.warm_start_lr,
        batch_size=params.warm_start_batch_size,
        micro_batch_size=_micro_batch_size(params, params.warm_start_batch_size),
    )


def schedule_drawn_paths(params: TrainParams) -> Schedule:
    """Online methods: groups of paths, at a constant rate after warm-up.

    The paths of a draw are in no checkpoint, so checkpoints are made only where the next draw begins.
    """
    paths = params.batch_size * params.group_size
    draws_per_checkpoint = -(-params.checkpoint_every // params.updates_per_rollout)
    return replace(
        schedule_stored_rows(params),
        batch_size=paths,
        micro_batch_size=_micro_batch_size(params, paths),
        shape="constant_with_warmup",
        checkpoint_every=draws_per_checkpoint * params.updates_per_rollout,
    )


def _micro_batch_size(params: TrainParams, batch_size: int) -> int | None:
    return params.micro_batch_size and min(params.micro_batch_size, batch_size)
