"""Token-budgeted SFT of a small model with length bucketing.

TRL's trainer takes rows by number and pads a batch to its longest row, here for more than half of the work.
Here a step has a number of tokens, and each forward pass takes sequences of similar lengths. A step is one batch
of the trainer's loop, so that order, checkpoints and resume are the same as in all other phases.

Axes: B sequences of a pass, L tokens, N tokens with a loss.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments
from typing_extensions import override

from pipeline_lib.engines.tokens import encode_completions, encode_prompts
from pipeline_lib.params.train import LoraParams, TokenSftParams
from pipeline_lib.seeding import child_generator
from pipeline_lib.train.bfloat16_products import bfloat16_products
from pipeline_lib.train.devices import present_devices
from pipeline_lib.train.phases import MakeTrainer, Phase, Row, Schedule
from pipeline_lib.train.token_budget import Tokens
from pipeline_lib.train.trainer_settings import IGNORED, TrainerSettings
from pipeline_lib.train.weights.adapters import attach, plain_model
from pipeline_lib.train.weights.policies import FULL, Policy

_COLUMNS = 16
_LOGITS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRow:
    """A sequence: token ids [L], end token included, and where its loss begins."""

    ids_L: npt.NDArray[np.int32]
    loss_from: int
    """First token with a loss; the first of all is never predicted."""
    silent: tuple[tuple[int, int], ...] = ()
    """Spans (first, behind the last) of later tokens without a loss, which the runtime wrote."""
    weighted: tuple[tuple[int, int], ...] = ()
    """Spans of earlier tokens with a loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSteps:
    """Steps of a training: the places of the sequences of each."""

    steps: Sequence[Sequence[int]]
    tokens: int
    """Over all steps, without padding."""


def plan_steps(lengths: Sequence[int], *, tokens: int, step_tokens: int, seed: int) -> TokenSteps:
    """Steps of at most ``step_tokens`` that together hold at least ``tokens``; no length is above ``step_tokens``."""
    steps: list[list[int]] = []
    current: list[int] = []
    held = total = 0
    for place in _endless_order(len(lengths), seed):
        if held + lengths[place] > step_tokens:
            steps.append(current)
            total += held
            current, held = [], 0
            if total >= tokens:
                break
        current.append(place)
        held += lengths[place]
    return TokenSteps(steps=steps, tokens=total)


def _endless_order(count: int, seed: int) -> Iterator[int]:
    """All places in a seeded order, then all in another."""
    turn = 0
    while True:
        yield from child_generator(seed, "order", turn).permutation(count).tolist()
        turn += 1


def encode_rows(rows: Sequence[Row], tokenizer: Any) -> list[TokenRow]:
    """Rows {prompt, completion} with an end token; the loss is on the completion.

    ``weights`` of a row are [first, behind the last, weight] of characters of its prompt, the weight 0 or 1: with 1
    they have a loss, too.
    """
    spans = [
        [(first, behind) for first, behind, weight in row.get("weights", ()) if weight]
        for row in rows
    ]
    prompts = encode_prompts(tokenizer, [row["prompt"] for row in rows], spans)
    outputs = encode_completions(tokenizer, [row["completion"] for row in rows])
    return [
        TokenRow(
            ids_L=np.array([*ids, *output, tokenizer.eos_token_id], dtype=np.int32),
            loss_from=len(ids),
            weighted=tuple(found),
        )
        for (ids, found), output in zip(prompts, outputs, strict=True)
    ]


def padded_length(longest: int) -> int:
    """The columns of a pass: a multiple of 16.

    On a CPU each new shape costs a compiled matrix product, and allocations of ever other sizes fragment the heap:
    a training with passes of all lengths took a sixth more time.
    """
    return -(-longest // _COLUMNS) * _COLUMNS


def padded_rows(count: int) -> int:
    """The rows of logits that are computed for ``count`` tokens, for the same reason."""
    return -(-count // _LOGITS) * _LOGITS


def cut_passes(lengths: Sequence[int], *, pass_tokens: int) -> list[list[int]]:
    """The places of a step's sequences by pass: longest first, with padding at most ``pass_tokens`` each.

    A sequence that is longer by itself is a pass of its own.
    """
    passes: list[list[int]] = []
    for place in sorted(range(len(lengths)), key=lambda one: -lengths[one]):
        # The first of a pass is its longest.
        if passes and (len(passes[-1]) + 1) * padded_length(lengths[passes[-1][0]]) <= pass_tokens:
            passes[-1].append(place)
        else:
            passes.append([place])
    return passes


_BETAS = (0.9, 0.95)


class MuonWithAdamW(torch.optim.Optimizer):
    """Both optimizers with their parameter groups in one list, so that one schedule moves both rates."""

    def __init__(
        self, matrices: list[nn.Parameter], others: list[nn.Parameter], *, lr: float, muon_lr: float
    ) -> None:
        self._parts = {
            "muon": torch.optim.Muon(matrices, lr=muon_lr, weight_decay=0.0),
            "adamw": _adamw(others, lr),
        }
        super().__init__([*matrices, *others], {"lr": lr})
        self.param_groups = [group for part in self._parts.values() for group in part.param_groups]

    @override
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update all parameters that have a gradient."""
        if closure is not None:
            raise ValueError("MuonWithAdamW takes no closure; call backward before step")
        for part in self._parts.values():
            part.step()

    @override
    def state_dict(self) -> dict[str, Any]:
        """The states of both."""
        return {name: part.state_dict() for name, part in self._parts.items()}

    @override
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore both."""
        for name, part in self._parts.items():
            part.load_state_dict(state_dict[name])
        self.param_groups = [group for part in self._parts.values() for group in part.param_groups]


def make_optimizer(model: Any, *, lr: float, muon_lr: float | None) -> torch.optim.Optimizer:
    """The optimizer of all trained parameters of a Llama; without ``muon_lr`` AdamW alone."""
    parameters = [one for one in model.parameters() if one.requires_grad]
    if muon_lr is None:
        return _adamw(parameters, lr)
    matrices = [one for one in model.model.layers.parameters() if one.ndim == 2]
    known = {id(one) for one in matrices}
    others = [one for one in parameters if id(one) not in known]
    return MuonWithAdamW(matrices, others, lr=lr, muon_lr=muon_lr)


def _adamw(parameters: list[nn.Parameter], lr: float) -> torch.optim.AdamW:
    # The fused kernel takes exact square roots; MKL's, in its reproducible mode, differ between processors.
    return torch.optim.AdamW(parameters, lr=lr, betas=_BETAS, weight_decay=0.0, fused=True)


def trainer_factory(
    rows: Sequence[TokenRow], plan: TokenSteps, sft: TokenSftParams, lora: LoraParams = FULL
) -> MakeTrainer:
    """A factory of trainers; the schedule must have as many steps as the plan."""

    def make(policy: Policy, settings: TrainerSettings) -> Trainer:
        return BucketedTrainer(policy, settings, rows, plan, sft, lora)

    return make


def token_phase(
    name: str,
    rows: Sequence[TokenRow],
    plan: TokenSteps,
    sft: TokenSftParams,
    lora: LoraParams = FULL,
) -> Phase:
    """The phase that trains on ``rows`` by ``plan``, with a cosine decay."""
    return Phase(
        name=name,
        schedule=Schedule(
            steps=len(plan.steps),
            lr=sft.lr,
            # A share of the step for each process.
            batch_size=present_devices().world,
            micro_batch_size=1,
            shape="cosine",
            warmup_fraction=sft.warmup_fraction,
            checkpoint_every=sft.checkpoint_every,
            gradient_checkpointing=False,
        ),
        make_trainer=trainer_factory(rows, plan, sft, lora),
        lora=lora,
    )


class BucketedTrainer(Trainer):
    """Mean next-token loss of a step's tokens, computed in passes of similar lengths."""

    def __init__(
        self,
        policy: Policy,
        settings: TrainerSettings,
        rows: Sequence[TokenRow],
        plan: TokenSteps,
        sft: TokenSftParams,
        lora: LoraParams = FULL,
    ) -> None:
        assert settings["max_steps"] == len(plan.steps)
        self._plan, self._sft = plan, sft
        one_step = {
            "per_device_train_batch_size": 1,
            "gradient_accumulation_steps": 1,
            "remove_unused_columns": False,
            # By `bfloat16_products` below: the trainer's own is not entered by a part of the model.
            "bf16": False,
        }
        super().__init__(
            model=attach(policy.model, lora, checkpointing=False),
            args=settings.make(TrainingArguments, **one_step),
            train_dataset=_Steps(
                rows, plan, pass_tokens=sft.pass_tokens, pad_id=policy.tokenizer.pad_token_id
            ),
            # The only step that the trainer's loop takes at a time.
            data_collator=itemgetter(0),
            processing_class=policy.tokenizer,
        )

    @override
    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        """Add the gradients of a step; the mean loss of its tokens."""
        del num_items_in_batch  # of the trainer's own loss
        model.train()
        plain, devices = self.accelerator.unwrap_model(model), present_devices()
        count = inputs["count"]
        total = torch.zeros((), device=self.args.device)
        for ids_BL, labels_BL in inputs["passes"]:
            with bfloat16_products(plain, enabled=self._sft.precision != "float32"):
                loss = summed_loss(plain, ids_BL, labels_BL) / count
            self.accelerator.backward(loss)
            total += loss.detach()
        # Not by the wrapper of processes, whose forward pass is not called.
        devices.sum_gradients(plain.parameters())
        # The trainer logs the mean over processes.
        return total * devices.world

    @override
    def create_optimizer(self, model: Any = None) -> Any:
        """Muon for the matrices of layers and AdamW for the rest, or AdamW alone."""
        if self.optimizer is None:
            self.optimizer = make_optimizer(
                self.model,
                lr=self.args.learning_rate,
                muon_lr=self._sft.muon_lr if self._sft.optimizer == "muon" else None,
            )
        return self.optimizer

    def count_processed_tokens(self) -> Tokens:
        """Tokens of all steps, prefixes included, padding not."""
        return Tokens(trained=self._plan.tokens)


def summed_loss(model: Any, ids_BL: Tensor, labels_BL: Tensor) -> Tensor:
    """Sum of the next-token losses of the labelled tokens, in nats."""
    return _label_losses(model, ids_BL, labels_BL, reduction="sum")


def token_losses(model: Any, ids_BL: Tensor, labels_BL: Tensor) -> Tensor:
    """Next-token losses [N] of the labelled tokens in nats, row after row."""
    return _label_losses(model, ids_BL, labels_BL, reduction="none")


def _label_losses(
    model: Any, ids_BL: Tensor, labels_BL: Tensor, *, reduction: Literal["sum", "none"]
) -> Tensor:
    """Cross-entropies of the labelled tokens.

    Sequences are padded at their end, where no token attends to padding, so there is no mask. Logits [N, V]
    are computed for labelled tokens alone.
    """
    # Adapters are in the layers; PEFT's wrapper has another way to the model's body.
    plain = plain_model(model)
    hidden_BLD = plain.model(input_ids=ids_BL, use_cache=False).last_hidden_state
    targets_M = labels_BL[:, 1:].flatten()
    places_N = (targets_M != IGNORED).nonzero()[:, 0]
    count = len(places_N)
    # Rows up to a round number, as columns are: with a target that is ignored.
    places_R = functional.pad(places_N, (0, padded_rows(count) - count))
    targets_R = functional.pad(targets_M[places_N], (0, len(places_R) - count), value=IGNORED)
    hidden_RD = hidden_BLD[:, :-1].flatten(0, 1).index_select(0, places_R)
    logits_RV = plain.lm_head(hidden_RD).float()
    losses = functional.cross_entropy(
        logits_RV, targets_R, ignore_index=IGNORED, reduction=reduction
    )
    return losses if reduction == "sum" else losses[:count]


class _Steps(Dataset[Any]):
    """The passes of each step, padded; the trainer's loop takes one share of a step for each process."""

    def __init__(
        self, rows: Sequence[TokenRow], plan: TokenSteps, *, pass_tokens: int, pad_id: int
    ) -> None:
        self._rows, self._plan = rows, plan
        self._pass_tokens, self._pad_id = pass_tokens, pad_id
        self._shares = present_devices().world

    def __len__(self) -> int:
        return len(self._plan.steps) * self._shares

    @override
    def __getitem__(self, place: int) -> dict[str, Any]:
        step, share = divmod(place, self._shares)
        rows = [self._rows[place] for place in self._plan.steps[step]]
        cut = cut_passes([len(row.ids_L) for row in rows], pass_tokens=self._pass_tokens)
        passes = [pad([rows[one] for one in places], pad_id=self._pad_id) for places in cut]
        count = sum(int((labels_BL[:, 1:] != IGNORED).sum()) for _, labels_BL in passes)
        return {"passes": passes[share :: self._shares], "count": count}


def pad(rows: Sequence[TokenRow], *, pad_id: int) -> tuple[Tensor, Tensor]:
    """Token ids and labels [B, L], padded at the end; L is a `padded_length`."""
    columns = padded_length(max(len(row.ids_L) for row in rows))
    ids_BL = torch.full((len(rows), columns), pad_id, dtype=torch.long)
    labels_BL = torch.full((len(rows), columns), IGNORED, dtype=torch.long)
    for index, row in enumerate(rows):
        ids_L = torch.from_numpy(row.ids_L)
        ids_BL[index, : len(ids_L)] = ids_L
        labels_BL[index, row.loss_from : len(ids_L)] = ids_L[row.loss_from :]
        for first, behind in row.silent:
            labels_BL[index, first:behind] = IGNORED
        for first, behind in row.weighted:
            labels_BL[index, first:behind] = ids_L[first:behind]
    return ids_BL, labels_BL
