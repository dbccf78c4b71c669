"""One phase of optimization: from a policy folder to a policy folder, by any of TRL's trainers.

What all methods share stands here: settings, the order of rows, checkpoints, resume, the log. What
the loss is, the modules `sft`, `dpo` and `grpo` say.
"""

import itertools
import math
import pathlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from datasets import Dataset
from transformers import PrinterCallback, Trainer, TrainerCallback
from typing_extensions import override

from pipeline_lib.determinism import deterministic, trainer_seed
from pipeline_lib.seeding import child_random
from pipeline_lib.storage import checkpoints, manifests
from pipeline_lib.training.library_logs import silence_libraries
from pipeline_lib.training.tracking.trackers import Trackers
from pipeline_lib.training.weights import policies
from pipeline_lib.training.weights.policies import Policy, load_policy

Progress = Callable[[int, int, Mapping[str, float]], None]
"""Called with step, total steps of the phase and the step's metrics."""

Row = Mapping[str, Any]

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
    "unjudged": "unjudged",
    "kl": "kl",
    "update_kl": "update_kl",
    "clip_fraction": "clip_fraction",
    "value_loss": "value_loss",
    "explained_variance": "explained_variance",
}
"""What a log line keeps, by TRL's name. Durations are left out: they differ from run to run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How long and how fast a phase optimizes."""

    steps: int
    lr: float
    batch_size: int
    """Sequences, pairs or paths a step."""
    micro_batch_size: int
    """Of these, so many are in memory at once."""
    shape: str
    """Of the learning rate after warm-up: a name that transformers knows."""
    warmup_fraction: float
    """Share of the steps, rounded up, before the full rate. The rate rises linearly from 0, which the
    first of these steps has. The last step is never one of them, so a single step has the full rate.
    """
    checkpoint_every: int


MakeTrainer = Callable[[Policy, Mapping[str, Any]], Any]
"""Makes the trainer of a method from a policy and the settings that all methods share: a ``Trainer``
of transformers' with a method ``tokens_read() -> Tokens`` that counts what its training read."""
VALIDATION_LOSS = "validation_loss"


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """What one phase does; where it reads and writes is given to :func:`run_phase`."""

    name: str
    schedule: Schedule
    make_trainer: MakeTrainer
    four_bit: bool = False
    """Whether the policy is held in 4 bits while adapters on it are trained."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What all phases of one training share."""

    work: pathlib.Path
    """Folder for checkpoints and for the results of phases."""
    key: str
    seed: int
    threads: int
    progress: Progress | None
    trackers: Trackers | None = None


def run_phase(phase: Phase, source: str, setting: Setting) -> pathlib.Path:
    """Train the policy of ``source``; return the sealed folder of the result.

    A finished phase is taken up as it is, a broken one continues from its newest checkpoint that
    verifies. On a CPU the result is then the same, bit by bit, as that of an unbroken run.
    """
    work = setting.work / phase.name
    result = work / "result"
    if manifests.current(result, kind=policies.KIND, key=setting.key) is not None:
        return result
    seed = trainer_seed(setting.seed, "training", phase.name)
    with silence_libraries(), deterministic(threads=setting.threads, seed=seed):
        policy = load_policy(source, four_bit=phase.four_bit)
        trainer = phase.make_trainer(policy, _settings(phase, work, seed) | _told(phase, setting))
        trainer.remove_callback(PrinterCallback)
        for callback in setting.trackers.callbacks(phase.name) if setting.trackers else ():
            trainer.add_callback(callback)
        trainer.add_callback(_Watch(key=setting.key, progress=setting.progress))
        resumed = checkpoints.newest(work, key=setting.key)
        trainer.train(resume_from_checkpoint=str(resumed) if resumed else None)
        policies.save_policy(
            trainer.accelerator.unwrap_model(trainer.model),
            result,
            source=source,
            log=_log(trainer, phase.name),
            key=setting.key,
            tokens=trainer.tokens_read(),
        )
    return result


def _settings(phase: Phase, work: pathlib.Path, seed: int) -> dict[str, Any]:
    """Keyword arguments that every trainer's config takes."""
    schedule = phase.schedule
    gpu = torch.cuda.is_available()
    return {
        "output_dir": str(work),
        "max_steps": schedule.steps,
        "per_device_train_batch_size": schedule.micro_batch_size,
        "gradient_accumulation_steps": schedule.batch_size // schedule.micro_batch_size,
        "learning_rate": schedule.lr,
        "lr_scheduler_type": schedule.shape,
        "warmup_steps": _warmup_steps(schedule),
        "max_grad_norm": 1.0,
        "seed": seed,
        # The order of rows is ours (`ordered`), so that it depends on nothing but the seed.
        "train_sampling_strategy": "sequential",
        "save_steps": schedule.checkpoint_every,
        "save_total_limit": 2,
        "logging_steps": 1,
        "disable_tqdm": True,
        "use_cpu": not gpu,
        "bf16": gpu,
        "gradient_checkpointing": gpu,
    }


def _warmup_steps(schedule: Schedule) -> int:
    return min(math.ceil(schedule.warmup_fraction * schedule.steps), schedule.steps - 1)


def _told(phase: Phase, setting: Setting) -> dict[str, Any]:
    return setting.trackers.settings(phase.name) if setting.trackers else {"report_to": "none"}


def ordered(rows: Dataset, settings: Row, *, sequences_per_row: int = 1) -> Dataset:
    """As many rows as the phase consumes: one shuffled pass over all of them after another.

    A single long epoch has no boundary at which a resumed run could draw differently.
    """
    sequences_a_step = (
        settings["per_device_train_batch_size"] * settings["gradient_accumulation_steps"]
    )
    count = settings["max_steps"] * sequences_a_step // sequences_per_row
    indices: list[int] = []
    for turn in itertools.count():
        order = list(range(len(rows)))
        child_random(settings["seed"], "order", turn).shuffle(order)
        indices.extend(order)
        if len(indices) >= count:
            break
    return rows.select(indices[:count])


def total_length(rows: Any, *columns: str) -> int:
    """Tokens in the ``columns`` of a data set of token ids."""
    return sum(len(ids) for column in columns for ids in rows[column])


class _Watch(TrainerCallback):
    """Seals each checkpoint, and reports each step to the caller."""

    def __init__(self, *, key: str, progress: Progress | None) -> None:
        self._key = key
        self._progress = progress

    @override
    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        folder = pathlib.Path(args.output_dir) / f"checkpoint-{state.global_step}"
        checkpoints.seal(folder, key=self._key)

    @override
    def on_log(
        self, args: Any, state: Any, control: Any, logs: Row | None = None, **kwargs: Any
    ) -> None:
        if self._progress is not None and logs is not None and "loss" in logs:
            self._progress(state.global_step, state.max_steps, _metrics(logs))


def _metrics(entry: Row) -> dict[str, float]:
    return {
        ours: float(entry[theirs])
        for theirs, ours in METRICS.items()
        if entry.get(theirs) is not None
    }


def _log(trainer: Trainer, name: str) -> list[dict[str, Any]]:
    """A row a step; a validation loss stands in the row of its step, 0 before the first."""
    rows: dict[int, dict[str, Any]] = {}
    for entry in trainer.state.log_history:
        found = _metrics(entry) if "loss" in entry else {}
        if "eval_loss" in entry:
            found[VALIDATION_LOSS] = float(entry["eval_loss"])
        if found:
            step = int(entry["step"])
            rows[step] = {"phase": name, "step": step} | rows.get(step, {}) | found
    return list(rows.values())
