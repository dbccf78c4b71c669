"""State of a training: optimizers, averaged weights, and checkpoints.

Gradients are averaged explicitly rather than by DDP, because a training step is not a plain forward pass and puzzle
vectors are not parameters.

Checkpoints hold tensors as safetensors, the rest as JSON. There is no RNG state: the randomness of step n depends on
the seed and n only. Tensors are named ``model.NAME``, ``ema.NAME`` and ``optimizer.I.PARAMETER.NAME``. The carry is one
file per process and is resharded when a training resumes with another number of processes.
"""

import math
import pathlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from typing_extensions import override

from pipeline_lib.store.files import atomic_file, read_json, write_json
from pipeline_lib.systems.prr.model.batches import Carry
from pipeline_lib.systems.prr.model.layers import PuzzleEmbedding, UsedRows
from pipeline_lib.systems.prr.model.prr import PrrModel
from pipeline_lib.systems.prr.model.saved_model import to_storable
from pipeline_lib.systems.prr.model.trm import TrmModel
from pipeline_lib.train.devices import Devices, sum_together


def sync_gradients(model: nn.Module, devices: Devices) -> None:
    """Average parameter gradients; gather the puzzle vectors in use with their gradients."""
    if devices.world == 1:
        return
    gradients = [one.grad for one in model.parameters() if one.grad is not None]
    sum_together(gradients)
    torch._foreach_div_(gradients, devices.world)
    for module in model.modules():
        if isinstance(module, PuzzleEmbedding) and module.used is not None:
            module.used = _gather_rows(module.used, devices.world)


def _gather_rows(used: UsedRows, world: int) -> UsedRows:
    """Rows of all processes with their gradients, ordered by rank."""

    def gather(mine: Tensor) -> Tensor:
        parts = [torch.empty_like(mine) for _ in range(world)]
        dist.all_gather(parts, mine.contiguous())
        return torch.cat(parts)

    vectors_BD = gather(used.vectors_BD.detach())
    if used.vectors_BD.grad is not None:
        vectors_BD.grad = gather(used.vectors_BD.grad)
    return UsedRows(
        ids_B=gather(used.ids_B),
        real_B=gather(used.real_B.to(torch.uint8)).bool(),
        vectors_BD=vectors_BD,
    )


class AdamATan2(torch.optim.Optimizer):
    """Adam with atan2(m, sqrt(v)) instead of m / (sqrt(v) + eps): bounded and scale-invariant.

    Source: Everett et al. 2024 (arXiv:2407.05872), section 4.3.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        *,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.95),
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @override
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient; ``closure`` is not called."""
        for group in self.param_groups:
            moved: list[Tensor] = [one for one in group["params"] if one.grad is not None]
            if moved:
                self._move(moved, group)

    def _move(self, moved: list[Tensor], group: dict[str, Any]) -> None:
        """Update a group with fused foreach kernels; launches would dominate otherwise."""
        lr, (beta1, beta2) = group["lr"], group["betas"]
        for parameter in moved:
            if not self.state[parameter]:
                self.state[parameter] = {
                    "step": 0,
                    "mean": torch.zeros_like(parameter),
                    "square": torch.zeros_like(parameter),
                }
            self.state[parameter]["step"] += 1
        gradients = [parameter.grad for parameter in moved if parameter.grad is not None]
        means = [self.state[parameter]["mean"] for parameter in moved]
        squares = [self.state[parameter]["square"] for parameter in moved]
        torch._foreach_lerp_(means, gradients, 1 - beta1)
        torch._foreach_mul_(squares, beta2)
        torch._foreach_addcmul_(squares, gradients, gradients, value=1 - beta2)
        torch._foreach_mul_(moved, 1 - lr * group["weight_decay"])
        for parameter, mean, square in zip(moved, means, squares, strict=True):
            step = self.state[parameter]["step"]
            scale = square.sqrt() / math.sqrt(1 - beta2**step)
            parameter.sub_(torch.atan2(mean, scale), alpha=lr / (1 - beta1**step))


class SignSgd(torch.optim.Optimizer):
    """Sign-SGD on the puzzle vectors of the last step's real rows.

    Gradients are summed over rows with the same puzzle. Other vectors neither move nor decay.
    """

    def __init__(self, embedding: PuzzleEmbedding, *, lr: float, weight_decay: float = 0.0) -> None:
        self.embedding = embedding
        weight = embedding.get_buffer("weight")
        super().__init__([weight], {"lr": lr, "weight_decay": weight_decay})

    @override
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update the vectors used since the last step; ``closure`` is not called."""
        used = self.embedding.used
        if used is None or used.vectors_BD.grad is None:
            return
        self.embedding.used = None
        gradients_BD = used.vectors_BD.grad[used.real_B]
        ids_U, places_B = torch.unique(used.ids_B[used.real_B], return_inverse=True)
        gradients_UD = gradients_BD.new_zeros(len(ids_U), gradients_BD.shape[1])
        gradients_UD.index_add_(0, places_B, gradients_BD)
        group = self.param_groups[0]
        weight_RD = self.embedding.get_buffer("weight")
        kept_UD = weight_RD[ids_U] * (1 - group["lr"] * group["weight_decay"])
        weight_RD[ids_U] = kept_UD - group["lr"] * gradients_UD.sign()


def averages_of(model: nn.Module) -> dict[str, Tensor]:
    """Averages of a model's parameters before the first step, by name."""
    return {name: one.detach().clone() for name, one in model.named_parameters()}


@torch.no_grad()
def update_averages(averages: Mapping[str, Tensor], model: nn.Module, *, decay: float) -> None:
    """Average <- decay * average + (1 - decay) * parameter, after every step.

    Buffers are not averaged: the average of a rarely updated puzzle vector would lag far behind.
    """
    parameters = dict(model.named_parameters())
    torch._foreach_lerp_([*averages.values()], [parameters[name] for name in averages], 1 - decay)


@contextmanager
def averaged_weights(model: nn.Module, averages: Mapping[str, Tensor]) -> Iterator[None]:
    """The model with its averages as weights, in evaluation mode; both are undone at the end."""
    own = averages_of(model)
    model.load_state_dict(averages, strict=False)
    model.eval()
    try:
        yield
    finally:
        model.load_state_dict(own, strict=False)
        model.train()


TENSORS_NAME = "state.safetensors"
FACTS_NAME = "state.json"


@dataclass(slots=True, kw_only=True)
class RunState:
    """Mutable state of a training between two steps."""

    model: PrrModel | TrmModel
    averages: Mapping[str, Tensor]
    """Averaged weights, which are published with the model's buffers."""
    optimizers: Sequence[torch.optim.Optimizer]
    carry: Carry | None = None
    step: int = 0
    """Completed steps."""
    log: list[dict[str, float]] = field(default_factory=list)


def has_finite_weights(state: RunState) -> bool:
    """True if all weights, averages and puzzle vectors are finite."""
    tensors = [*state.model.state_dict().values(), *state.averages.values()]
    return all(bool(tensor.isfinite().all()) for tensor in tensors)


def save_carry(state: RunState, folder: pathlib.Path, *, rank: int) -> None:
    """Write the carry of this process, if any."""
    if state.carry is not None:
        with atomic_file(folder / _carry_name(rank)) as temporary:
            save_file(to_storable(state.carry), temporary)


def save_state(state: RunState, folder: pathlib.Path, *, world: int) -> None:
    """Write the state shared by all ``world`` processes; the caller seals the folder."""
    tensors = _add_prefix("model", state.model.state_dict())
    tensors |= _add_prefix("ema", state.averages)
    numbers: dict[str, Any] = {}
    for index, optimizer in enumerate(state.optimizers):
        for parameter, values in optimizer.state_dict()["state"].items():
            of_one = _add_prefix(f"optimizer.{index}.{parameter}", values)
            tensors |= {name: one for name, one in of_one.items() if isinstance(one, Tensor)}
            numbers |= {name: one for name, one in of_one.items() if name not in tensors}
    with atomic_file(folder / TENSORS_NAME) as temporary:
        save_file(to_storable(tensors), temporary)
    facts = {"step": state.step, "world": world, "log": state.log, "numbers": numbers}
    write_json(folder / FACTS_NAME, facts)


def load_state(state: RunState, folder: pathlib.Path, *, devices: Devices) -> None:
    """Restore ``state`` from the checkpoint in ``folder``.

    Another number of processes than the writer's reshards the carry by row. Order of summation and per-rank noise then
    follow the new number.
    """
    tensors = load_file(folder / TENSORS_NAME, device=str(devices.device))
    facts = read_json(folder / FACTS_NAME)
    state.model.load_state_dict(_strip_prefix("model", tensors))
    state.averages = _strip_prefix("ema", tensors)
    state.carry = _load_carry(folder, written_by=int(facts["world"]), devices=devices)
    for index, optimizer in enumerate(state.optimizers):
        restored: defaultdict[int, dict[str, Any]] = defaultdict(dict)
        for key, value in _strip_prefix(
            f"optimizer.{index}", {**tensors, **facts["numbers"]}
        ).items():
            parameter, name = key.split(".", 1)
            restored[int(parameter)][name] = value
        optimizer.load_state_dict({**optimizer.state_dict(), "state": dict(restored)})
    state.step = int(facts["step"])
    state.log = facts["log"]


def _load_carry(folder: pathlib.Path, *, written_by: int, devices: Devices) -> Carry | None:
    """The carry of this process: rank r of ``world`` has rows r, r + world, ... of a batch."""
    if not (folder / _carry_name(0)).is_file():
        return None
    parts = [load_file(folder / _carry_name(rank)) for rank in range(written_by)]
    mine = slice(devices.rank, None, devices.world)
    return {
        name: torch.stack([part[name] for part in parts], dim=1)
        .flatten(0, 1)[mine]
        .to(devices.device)
        for name in parts[0]
    }


def _carry_name(rank: int) -> str:
    return f"carry-{rank}.safetensors"


def _add_prefix(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{prefix}.{name}": value for name, value in values.items()}


def _strip_prefix(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    start = f"{prefix}."
    return {name[len(start) :]: value for name, value in values.items() if name.startswith(start)}
