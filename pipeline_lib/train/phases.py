"""One phase of optimization, from a policy folder to a policy folder, by any transformers trainer.

Shared by all methods: trainer settings, the order of rows, checkpoints, resume, the log. Losses are in
`offline`, `online` and `ppo`.
"""

import itertools
import math
import pathlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from datasets import Dataset
from torch.distributed.fsdp import FSDPModule
from transformers import PrinterCallback, Trainer, TrainerCallback
from typing_extensions import override

from pipeline_lib.determinism import deterministic, trainer_seed
from pipeline_lib.errors import BadInputError, BudgetReachedError, DivergedError, ReasonloopError
from pipeline_lib.params.train import LoraParams
from pipeline_lib.problems.trained import Asked
from pipeline_lib.seeding import child_random
from pipeline_lib.store import checkpoints, manifests
from pipeline_lib.train.devices import present_devices
from pipeline_lib.train.token_budget import BRANCH_TOKENS, PEER_TOKENS
from pipeline_lib.train.tracking.trackers import Trackers
from pipeline_lib.train.trainer_settings import TrainerSettings, fitting_rows, silence_libraries
from pipeline_lib.train.weights import adapters, policies
from pipeline_lib.train.weights.models import whole_weights
from pipeline_lib.train.weights.policies import Policy, load_policy

Progress = Callable[[int, int, Mapping[str, float]], None]
"""Called with step, total steps of the phase and the step's metrics."""

Row = Mapping[str, Any]

LOGPROB_GAP = "logprob_gap"
"""Mean absolute difference of a drawn token's log-probability between sampler and trainer, in nats."""
METRICS: Mapping[str, str] = {
    "loss": "loss",
    "learning_rate": "lr",
    "grad_norm": "grad_norm",
    "entropy": "entropy",
    "mean_token_accuracy": "token_accuracy",
    "reward": "reward",
    "frac_reward_zero_std": "equal_groups",
    "completions/mean_length": "mean_tokens",
    "completions/clipped_ratio": "truncated",
    "rewards/margins": "margin",
    "rewards/accuracies": "pair_accuracy",
    **{
        name: name
        for name in (
            *(
                "unjudged",
                BRANCH_TOKENS,
                LOGPROB_GAP,
                "kl",
                "update_kl",
                "clip_fraction",
                "value_loss",
            ),
            "explained_variance",
        )
    },
    **{
        f"rollouts/{name}": name
        for name in ("accuracy", "children", "drawn_tokens", "critical_tokens", "lost_sequences")
    },
    **{
        name: name
        for name in (
            *("base_reward", "best_classmate_score", "avg_classmate_score", "final_reward", "lift"),
            *("leak_rate", "empty_prefix_rate", "kept_steps", "unique_share"),
        )
    },
}
"""Metrics of the log, by TRL's names. Durations are left out, since they differ from run to run."""
METRIC_FAMILIES = ("classmate_scores/", "failure_rate/", PEER_TOKENS)
"""Beginnings of further names, each of which is kept; a name follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Steps, batches and learning rate of a phase."""

    steps: int
    lr: float
    batch_size: int
    """Sequences, pairs or paths per optimizer step."""
    micro_batch_size: int | None = None
    """Sequences, pairs or paths per forward/backward pass; None: as many as fit into memory."""
    shape: str = "constant"
    """Learning-rate schedule after warm-up, by its name in transformers."""
    warmup_fraction: float = 0.0
    """Share of the steps, rounded up, over which the rate rises linearly from 0 at the first step. The
    last step is never one of them, so a single step has the full rate.
    """
    checkpoint_every: int
    gradient_checkpointing: bool | None = None
    """Compute activations again in the backward pass; None: on a GPU that has no room for a few rows without."""


MakeTrainer = Callable[[Policy, TrainerSettings], Any]
"""Makes a trainer from a policy and the settings that all methods share: a transformers ``Trainer``
with a method ``count_processed_tokens() -> Tokens``."""
VALIDATION_LOSS = "validation_loss"
_FEW_ROWS = 8
"""Of a pass, with fewer of which a GPU waits for launches."""
Sharding = Literal["none", "full"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A trainer and its schedule; :func:`run_phase` gets the folders."""

    name: str
    schedule: Schedule
    make_trainer: MakeTrainer
    row_tokens: Callable[[Any], int] | None = None
    """From the tokenizer to the tokens of the longest sequence, pair or path; needed where the schedule
    leaves ``micro_batch_size`` open."""
    lora: LoraParams = policies.FULL
    """Adapters that are trained; not enabled: the weights are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainContext:
    """Values that all phases of one training share."""

    work: pathlib.Path
    """Folder for checkpoints and for the results of phases."""
    key: str
    seed: int
    threads: int
    sharding: Sharding = "none"
    """Of weights, gradients and moments over several processes. none: DDP; full: FSDP2."""
    progress: Progress | None = None
    trackers: Trackers | None = None
    problems: Iterable[Asked] = ()
    """Those that are trained on."""
    deadline: float | None = None
    """Time of `time.perf_counter` after which a phase ends behind a checkpoint."""


def run_phase(phase: Phase, source: str, context: TrainContext) -> pathlib.Path:
    """Train the policy of ``source``; return the sealed folder of the result.

    A finished phase is reused; an interrupted one resumes from its newest checkpoint that verifies. On a
    CPU the result is then bit-identical to an unbroken run.

    Raises:
        BudgetReachedError: the deadline was reached; the same call resumes.
        DivergedError: loss or weights are not finite; nothing is published.
    """
    work, devices = context.work / phase.name, present_devices()
    result = work / "result"
    if devices.from_main(lambda: is_finished(result, context.key)):
        return result
    seed = trainer_seed(context.seed, "training", phase.name)
    trackers = context.trackers if devices.is_main else None
    tracked = trackers.settings(phase.name) if trackers else {"report_to": "none"}
    with silence_libraries(), deterministic(threads=context.threads, seed=seed):
        policy = load_policy(source, lora=phase.lora)
        settings = _settings(phase, policy, work, seed, context.sharding)
        trainer = phase.make_trainer(policy, settings | tracked)
        for weight in filter(lambda one: one.requires_grad, trainer.model.parameters()):
            # TRL makes adapters on a quantized base bfloat16, which loses small updates.
            weight.data = weight.data.float()
        trainer.remove_callback(PrinterCallback)
        progress = context.progress if devices.is_main else None
        for callback in (
            *(trackers.callbacks(phase.name) if trackers else ()),
            _CheckShards(),
            _SealAndReport(phase, key=context.key, progress=progress),
            *([] if context.deadline is None else [_StopInTime(context.deadline)]),
        ):
            trainer.add_callback(callback)
        resumed = devices.from_main(partial(checkpoints.newest, work, key=context.key))
        trainer.train(resume_from_checkpoint=str(resumed) if resumed else None)
        if trainer.state.global_step < phase.schedule.steps:
            raise BudgetReachedError(
                f"step {trainer.state.global_step} of {phase.schedule.steps}: time limit reached; "
                "run the same command to resume"
            )
        trained = _whole_model(trainer, phase, source)
        devices.from_main(partial(_save, trained, result, trainer, phase, source, context.key))
    return result


def _save(
    trained: Any, result: pathlib.Path, trainer: Any, phase: Phase, source: str, key: str
) -> None:
    # They may diverge after a finite loss.
    if not all(bool(weight.isfinite().all()) for weight in trained.parameters()):
        raise _diverged(phase, "weights", step=trainer.state.global_step)
    policies.save_policy(
        trained,
        result,
        source=source,
        log=_log(trainer, phase.name),
        key=key,
        tokens=trainer.count_processed_tokens(),
    )


def is_finished(folder: pathlib.Path, key: str) -> bool:
    """The folder holds a model that was made under ``key``."""
    return manifests.current(folder, kind=policies.KIND, key=key) is not None


def _whole_model(trainer: Any, phase: Phase, source: str) -> Any:
    """The trained model; of shards, in the first process alone, another one with the weights of all."""
    if not trainer.args.fsdp:
        return trainer.accelerator.unwrap_model(trainer.model)
    state = whole_weights(trainer.model)
    if not present_devices().is_main:
        return None
    model = load_policy(source, lora=phase.lora).model
    whole = adapters.attach(model, phase.lora, checkpointing=False)
    whole.load_state_dict(state)
    return whole


def _settings(
    phase: Phase, policy: Policy, work: pathlib.Path, seed: int, sharding: Sharding = "none"
) -> TrainerSettings:
    schedule = phase.schedule
    world = present_devices().world
    batch_size, left = divmod(schedule.batch_size, world)
    if left:
        raise BadInputError(
            f"train.processes={world}: does not divide a batch of {schedule.batch_size}; change one of them"
        )
    gpu = torch.cuda.is_available()
    checkpointing, micro_batch_size = schedule.gradient_checkpointing, schedule.micro_batch_size
    if micro_batch_size is None or (checkpointing is None and gpu):
        assert phase.row_tokens is not None
        fitting = partial(
            fitting_rows,
            policy.model.config,
            batch_size=batch_size,
            row_tokens=phase.row_tokens(policy.tokenizer),
        )
        if checkpointing is None:
            enough = min(micro_batch_size or _FEW_ROWS, batch_size)
            checkpointing = gpu and fitting() < enough
        micro_batch_size = micro_batch_size or fitting(checkpointing=checkpointing)
    micro_batch_size = min(micro_batch_size, batch_size)
    if batch_size % micro_batch_size:
        raise BadInputError(
            f"micro_batch_size={micro_batch_size}: does not divide {batch_size}, the batch of one of {world} processes"
        )
    values = {
        "output_dir": str(work),
        "max_steps": schedule.steps,
        "per_device_train_batch_size": micro_batch_size,
        "gradient_accumulation_steps": batch_size // micro_batch_size,
        "learning_rate": schedule.lr,
        "lr_scheduler_type": schedule.shape,
        "warmup_steps": min(
            math.ceil(schedule.warmup_fraction * schedule.steps), schedule.steps - 1
        ),
        "max_grad_norm": 1.0,
        "seed": seed,
        # `order_rows` has shuffled them, so that their order depends on the seed alone.
        "train_sampling_strategy": "sequential",
        "save_steps": schedule.checkpoint_every,
        "save_total_limit": 2,
        "logging_steps": 1,
        # A loss that is not finite ends the training; the filter would log another in its place.
        "logging_nan_inf_filter": False,
        "disable_tqdm": True,
        "use_cpu": not gpu,
        "bf16": gpu,
        "gradient_checkpointing": bool(checkpointing),
        # The passes of a step differ in number between processes, and each would wait for the buffers of the first.
        "ddp_broadcast_buffers": False,
    }
    return TrainerSettings(
        values
        | (_shards(checkpointing=bool(checkpointing)) if world > 1 and sharding == "full" else {})
    )


def _shards(*, checkpointing: bool) -> dict[str, Any]:
    config = {
        "version": 2,
        "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "state_dict_type": "SHARDED_STATE_DICT",
        "activation_checkpointing": checkpointing,
    }
    return {"fsdp": True, "fsdp_config": config, "gradient_checkpointing": False}


def order_rows(rows: Dataset, settings: TrainerSettings, *, sequences_per_row: int = 1) -> Dataset:
    """The rows that the phase consumes: repeated passes over ``rows``, each shuffled anew.

    They are one long epoch, since a resumed run could differ at a boundary between epochs.
    """
    sequences = settings["max_steps"] * settings.sequences * present_devices().world
    count = sequences // sequences_per_row
    indices: list[int] = []
    for turn in itertools.count():
        order = list(range(len(rows)))
        child_random(settings["seed"], "order", turn).shuffle(order)
        indices.extend(order)
        if len(indices) >= count:
            break
    return rows.select(indices[:count])


def select_prompts(rows: Sequence[Row], settings: TrainerSettings, *, group_size: int) -> Dataset:
    """``prompt`` and ``problem_id`` of as many rows as a phase of an online method consumes."""
    names = ("prompt", "problem_id")
    problems = Dataset.from_list([{name: row[name] for name in names} for row in rows])
    return order_rows(problems, settings, sequences_per_row=group_size)


def count_tokens(rows: Any, *columns: str) -> int:
    """Number of tokens in the ``columns`` of a data set of token ids."""
    return sum(len(ids) for column in columns for ids in rows[column])


class _SealAndReport(TrainerCallback):
    """Seals each checkpoint, and checks the loss and calls ``progress`` after each step."""

    def __init__(self, phase: Phase, *, key: str, progress: Progress | None) -> None:
        self._phase, self._key, self._progress = phase, key, progress

    @override
    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        folder, devices = pathlib.Path(args.output_dir), present_devices()
        devices.barrier()  # each process has files of its own in it
        seal = partial(checkpoints.seal, folder / f"checkpoint-{state.global_step}", key=self._key)
        devices.from_main(seal)

    @override
    def on_log(
        self, args: Any, state: Any, control: Any, logs: Row | None = None, **kwargs: Any
    ) -> None:
        if logs is None or "loss" not in logs:
            return
        if not math.isfinite(logs["loss"]):
            raise _diverged(self._phase, "loss", step=state.global_step)
        if self._progress is not None:
            self._progress(state.global_step, state.max_steps, _metrics(logs))


def _diverged(phase: Phase, what: str, *, step: int) -> DivergedError:
    return DivergedError(
        f"{phase.name}, step {step}: diverged, {what} no longer finite; lower the learning rate, "
        f"{phase.schedule.lr:g} now"
    )


class _CheckShards(TrainerCallback):
    """Refuses a training whose weights are not sharded as set: accelerate ignores FSDP where it knows none."""

    @override
    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if args.fsdp and not isinstance(kwargs["model"], FSDPModule):
            raise ReasonloopError(
                f"train.sharding=full: accelerate shards no weights on {args.device.type}; set train.sharding=none"
            )


class _StopInTime(TrainerCallback):
    """Ends a training behind a checkpoint once its time is over."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline

    @override
    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        is_late = present_devices().any(time.perf_counter() > self._deadline)
        if state.global_step < state.max_steps and is_late:
            control.should_save = control.should_training_stop = True


def _metrics(entry: Row) -> dict[str, float]:
    members = {name: name for name in entry if name.startswith(METRIC_FAMILIES)}
    return {
        name: float(entry[trl_name])
        for trl_name, name in {**METRICS, **members}.items()
        if entry.get(trl_name) is not None
    }


def _log(trainer: Trainer, name: str) -> list[dict[str, Any]]:
    """A row per step with its metrics and its validation loss, which may exist for step 0."""
    rows: dict[int, dict[str, Any]] = {}
    for entry in trainer.state.log_history:
        found = _metrics(entry) if "loss" in entry else {}
        if "eval_loss" in entry:
            found[VALIDATION_LOSS] = float(entry["eval_loss"])
        if found:
            step = int(entry["step"])
            rows[step] = {"phase": name, "step": step} | rows.get(step, {}) | found
    return list(rows.values())
