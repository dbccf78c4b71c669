"""Training of a latent model, from a puzzle set to a folder with averaged weights.

A killed training resumes from its newest valid checkpoint; on a CPU the result is bitwise identical
to an uninterrupted run. Under torchrun each process calls `train_latent` with the same
request; rank 0 writes the files.
"""

import math
import pathlib
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from pipeline_lib.determinism import deterministic, trainer_seed
from pipeline_lib.errors import BudgetReachedError, DivergedError
from pipeline_lib.params.prr import PrrParams, PrrTrainParams
from pipeline_lib.params.whole import ExecutionParams
from pipeline_lib.seeding import child_seed
from pipeline_lib.store import checkpoints, manifests
from pipeline_lib.store.folders import check_output_folder
from pipeline_lib.store.keys import stage_key
from pipeline_lib.store.manifests import Manifest
from pipeline_lib.systems.prr.data.dataset_files import PuzzleSet, data_digest, read_set
from pipeline_lib.systems.prr.model.batches import (
    StepOutput,
    TrainingBatches,
    evaluation_batches,
    labelled_sample,
)
from pipeline_lib.systems.prr.model.losses import branch_losses, exact_match, selection_shares
from pipeline_lib.systems.prr.model.prr import PrrModel
from pipeline_lib.systems.prr.model.saved_model import (
    KIND,
    SavedConfig,
    build_model,
    model_sizes,
    save_model,
)
from pipeline_lib.systems.prr.model.trm import TrmModel
from pipeline_lib.systems.prr.training.run_state import (
    AdamATan2,
    RunState,
    SignSgd,
    averaged_weights,
    averages_of,
    has_finite_weights,
    load_state,
    save_carry,
    save_state,
    sync_gradients,
    update_averages,
)
from pipeline_lib.train.devices import Devices, join_process_group

_KEPT_CHECKPOINTS = 2
_BETAS = (0.9, 0.95)

Progress = Callable[[int, int, Mapping[str, float]], None]
"""Called with step, total steps and the metrics of the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentTraining:
    """Arguments of one training."""

    data: PuzzleSet
    test: PuzzleSet | None = None
    """Split of which a sample is evaluated during the training, for the log alone."""
    output: pathlib.Path
    """Folder of the trained model."""
    params: PrrParams
    seed: int
    key: str
    """Stage key: checkpoints with another key are not resumed."""
    max_seconds: float | None = None
    """Time limit: save a checkpoint and stop; the same call resumes."""
    progress: Progress | None = None


def train_latent(request: LatentTraining) -> Manifest:
    """Train or resume, and publish the averaged weights; a finished training is reused.

    Raises:
        BudgetReachedError: ``max_seconds`` reached; the same call resumes.
        DivergedError: loss or weights are not finite; nothing is published.
        BadInputError: the data are invalid.
    """
    finished = manifests.current(request.output, kind=KIND, key=request.key)
    if finished is not None:
        return finished
    deadline = time.perf_counter() + (
        float("inf") if request.max_seconds is None else request.max_seconds
    )
    seed = trainer_seed(request.seed, "latent", "weights")
    with (
        join_process_group() as devices,
        deterministic(threads=request.params.train.threads, seed=seed),
    ):
        run = _Training(request, devices)
        run.run_steps(deadline)
        devices.barrier()
        if devices.is_main:
            run.publish()
        devices.barrier()
    return manifests.read_manifest(request.output)


def train_on(  # noqa: PLR0913 - what a training depends on
    data: pathlib.Path,
    output: pathlib.Path,
    params: PrrParams,
    *,
    seed: int,
    trackers: pathlib.Path | None = None,
    execution: ExecutionParams | None = None,
    phase: str = "prr",
    max_seconds: float | None = None,
    progress: Progress = lambda _step, _total, _metrics: None,
) -> Manifest:
    """Train on the training split of the folder ``data``; see :func:`train_latent`.

    Steps are logged as ``phase`` to the trackers of ``execution``, with their files in ``trackers``, by default beside
    ``output``. The number of processes is no part of the key: a training may resume with another one, and torchrun gives
    it without the params.
    """
    check_output_folder(output, kind=KIND)
    key = stage_key(
        __name__,  # evaluation code does not affect a model
        params={
            **params.model_dump(mode="json", include={"model", "loss"}),
            "train": params.train.model_dump(mode="json", exclude={"processes"}),
            "seed": seed,
        },
        inputs={"data": data_digest(data)},
    )
    facts = params.model_dump(mode="json")
    place = trackers or output.with_name(f"{output.name}.trackers")
    opening: AbstractContextManager[Progress] = nullcontext(lambda *_: None)
    if execution is not None and execution.report_to:
        from pipeline_lib.train.tracking.trackers import Trackers, log_steps  # noqa: PLC0415 - seconds to import

        opening = log_steps(Trackers.of(execution, place), phase=phase, facts=facts)
    with opening as log_step:

        def notify(step: int, total: int, metrics: Mapping[str, float]) -> None:
            progress(step, total, metrics)
            log_step(step, total, metrics)

        return train_latent(
            LatentTraining(
                data=read_set(data, "train"),
                test=read_set(data, "test") if params.train.evaluate_every else None,
                output=output,
                params=params,
                seed=seed,
                key=key,
                max_seconds=max_seconds,
                progress=notify,
            )
        )


class _Training:
    """A running training on one device."""

    def __init__(self, request: LatentTraining, devices: Devices) -> None:
        self._request = request
        self._devices = devices
        params = request.params.train
        self._work = checkpoints.work_folder(request.output, request.key)
        self._batches = TrainingBatches(
            request.data,
            batch_size=params.batch_size,
            seed=request.seed,
            rank=devices.rank,
            world=devices.world,
        )
        self._sample_N = (
            np.zeros(0, dtype=np.int64)
            if request.test is None
            else labelled_sample(request.test, count=params.evaluate_examples, seed=request.seed)
        )
        model = build_model(
            request.params.model, model_sizes(request.data), loss=request.params.loss
        )
        model.to(devices.device)
        self._state = RunState(
            model=model,
            averages=averages_of(model),
            optimizers=_optimizers(model, params),
        )
        newest = checkpoints.newest(self._work, key=request.key) if devices.is_main else None
        devices.barrier()
        newest = newest or checkpoints.newest(self._work, key=request.key)
        if newest is not None:
            load_state(self._state, newest, devices=devices)

    def run_steps(self, deadline: float) -> None:
        """Run the remaining steps."""
        params, state = self._request.params.train, self._state
        while state.step < params.steps:
            output = self._step()
            late = self._devices.any(time.perf_counter() > deadline)
            ends = state.step == params.steps
            saves = late or state.step % params.checkpoint_every == 0
            evaluates = len(self._sample_N) and (ends or state.step % params.evaluate_every == 0)
            notes = ends or evaluates or state.step % params.log_every == 0
            # All ranks must stop together: one alone would leave the others in a collective.
            if (notes or saves) and self._devices.any(
                not math.isfinite(float(output.loss.detach()))
            ):
                raise _diverged(state.step, "loss")
            # The last update may diverge after a finite loss.
            if (ends or saves) and not has_finite_weights(state):
                raise _diverged(state.step, "weights")
            if notes:
                shares = self._evaluate_sample() if evaluates and self._devices.is_main else {}
                logged = {**output.parts, **shares}.items()
                # A share of no rows is no number, and is left out.
                metrics = {name: one for name, part in logged if not math.isnan(one := float(part))}
                # Sorted as in a restored checkpoint: the log is part of the digest.
                state.log.append(dict(sorted({"step": state.step, **metrics}.items())))
                if self._request.progress is not None and self._devices.is_main:
                    self._request.progress(state.step, params.steps, metrics)
            if saves:
                self._checkpoint()
            if late and state.step < params.steps:
                raise BudgetReachedError(
                    f"step {state.step} of {params.steps}: time limit reached; "
                    "run the same command to resume"
                )

    def _step(self) -> StepOutput:
        params, state, device = self._request.params.train, self._state, self._devices.device
        generator = torch.Generator().manual_seed(
            child_seed(self._request.seed, "latent", "noise", state.step, self._devices.rank)
        )
        state.model.train()
        output = state.model.training_step(
            self._batches.at(state.step).to(device),
            carry=state.carry,
            progress=state.step / params.steps,
            generator=generator,
        )
        output.loss.backward()  # type: ignore[no-untyped-call]
        sync_gradients(state.model, self._devices)
        warmth = min(1.0, (state.step + 1) / max(params.warmup_steps, 1))
        for optimizer in state.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = warmth * group["peak_lr"]
            optimizer.step()
            optimizer.zero_grad()
        update_averages(state.averages, state.model, decay=params.ema)
        state.carry = output.carry
        state.step += 1
        return output

    def _evaluate_sample(self) -> dict[str, Tensor]:
        """Shares of the sample by the averaged weights; names begin with ``test_``."""
        model, test = self._state.model, self._request.test
        assert test is not None
        parts = []
        # Neither batch size nor steps of `prr.evaluate`: no training depends on them.
        size = self._request.params.train.batch_size
        with averaged_weights(model, self._state.averages):
            for _, rows in evaluation_batches(test, batch_size=size, chosen_N=self._sample_N):
                batch = rows.to(self._devices.device)
                output = model.predict(batch)
                judged = (output.logits_BKLV, batch.labels_BL)
                losses_BK, exact_BK = branch_losses(*judged), exact_match(*judged)
                parts.append((losses_BK, output.scores_BK, exact_BK, batch.real_B))
        columns = map(torch.cat, zip(*parts, strict=True))
        return {f"test_{name}": share for name, share in selection_shares(*columns).items()}

    def _checkpoint(self) -> None:
        folder = self._work / f"checkpoint-{self._state.step}"
        folder.mkdir(parents=True, exist_ok=True)
        save_carry(self._state, folder, rank=self._devices.rank)
        self._devices.barrier()
        if self._devices.is_main:
            save_state(self._state, folder, world=self._devices.world)
            checkpoints.seal(folder, key=self._request.key)
            kept = sorted(
                self._work.glob("checkpoint-*"), key=lambda one: int(one.name.split("-")[1])
            )
            for old in kept[:-_KEPT_CHECKPOINTS]:
                shutil.rmtree(old)
        self._devices.barrier()

    def publish(self) -> None:
        """Write averaged weights, config and log to the output."""
        request = self._request
        config = SavedConfig(
            model=request.params.model,
            loss=request.params.loss,
            sizes=model_sizes(request.data),
            identifiers=request.data.identifiers_digest,
        )
        save_model(
            {**self._state.model.state_dict(), **self._state.averages},
            request.output,
            config=config,
            log=self._state.log,
            key=request.key,
        )
        checkpoints.discard(self._work)


def _diverged(step: int, what: Literal["loss", "weights"]) -> DivergedError:
    return DivergedError(
        f"step {step}: diverged, {what} no longer finite; lower prr.train.lr "
        "or raise prr.train.warmup_steps"
    )


def _optimizers(
    model: PrrModel | TrmModel, params: PrrTrainParams
) -> tuple[torch.optim.Optimizer, torch.optim.Optimizer]:
    """Optimizers of parameters and puzzle vectors; ``peak_lr`` is the rate after warm-up."""
    kinds: dict[str, Any] = {"adam-atan2": AdamATan2, "adamw": torch.optim.AdamW}
    weights = kinds[params.optimizer](
        model.parameters(), lr=params.lr, betas=_BETAS, weight_decay=params.weight_decay
    )
    puzzles = SignSgd(
        model.embedding.puzzles, lr=params.puzzle_lr, weight_decay=params.puzzle_weight_decay
    )
    for optimizer in (weights, puzzles):
        for group in optimizer.param_groups:
            group["peak_lr"] = group["lr"]
    return weights, puzzles
