"""State of a training and its checkpoints: tensors as safetensors, the rest as JSON.

There is no RNG state: the randomness of step n depends on the seed and n only. Tensors are named
``model.NAME``, ``ema.NAME`` and ``optimizer.I.PARAMETER.NAME``. The carry is one file per process
and is resharded when a training resumes with another number of processes.
"""

import pathlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from pipeline_lib.store.files import atomic_file, read_json, write_json
from pipeline_lib.systems.prr.model.protocol import Carry
from pipeline_lib.systems.prr.model.prr import PrrModel
from pipeline_lib.systems.prr.model.saved_model import to_storable
from pipeline_lib.systems.prr.model.trm import TrmModel
from pipeline_lib.systems.prr.training.devices import Devices


class Ema:
    """average <- decay * average + (1 - decay) * parameter, after every step.

    Buffers are not averaged: the average of a rarely updated puzzle vector would lag far behind.
    """

    def __init__(self, model: nn.Module, *, decay: float) -> None:
        self.decay = decay
        self._parameters = dict(model.named_parameters())
        self._averages = {
            name: parameter.detach().clone() for name, parameter in self._parameters.items()
        }

    @torch.no_grad()
    def update(self) -> None:
        """Update the averages with the current parameters."""
        torch._foreach_lerp_(
            list(self._averages.values()), list(self._parameters.values()), 1 - self.decay
        )

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Use the averages as the model's parameters within the block."""
        trained = {name: value.detach().clone() for name, value in self._parameters.items()}
        self._set(self._averages)
        try:
            yield
        finally:
            self._set(trained)

    def state_dict(self) -> dict[str, Tensor]:
        """The averages by parameter name."""
        return dict(self._averages)

    @torch.no_grad()
    def load_state_dict(self, averages: Mapping[str, Tensor]) -> None:
        """Restore averages of the same model; KeyError if one is missing."""
        for name, average in self._averages.items():
            average.copy_(averages[name])

    @torch.no_grad()
    def _set(self, values: Mapping[str, Tensor]) -> None:
        for name, parameter in self._parameters.items():
            parameter.copy_(values[name])


TENSORS_NAME = "state.safetensors"
FACTS_NAME = "state.json"


@dataclass(slots=True, kw_only=True)
class RunState:
    """Mutable state of a training between two steps."""

    model: PrrModel | TrmModel
    ema: Ema
    """Averaged weights, which are published."""
    optimizers: Sequence[torch.optim.Optimizer]
    carry: Carry | None = None
    step: int = 0
    """Completed steps."""
    log: list[dict[str, float]] = field(default_factory=list)


def has_finite_weights(state: RunState) -> bool:
    """True if all weights, averages and puzzle vectors are finite."""
    tensors = [*state.model.state_dict().values(), *state.ema.state_dict().values()]
    return all(bool(tensor.isfinite().all()) for tensor in tensors)


def save_carry(state: RunState, folder: pathlib.Path, *, rank: int) -> None:
    """Write the carry of this process, if any."""
    if state.carry is not None:
        with atomic_file(folder / _carry_name(rank)) as temporary:
            save_file(to_storable(state.carry), temporary)


def save_state(state: RunState, folder: pathlib.Path, *, world: int) -> None:
    """Write the state shared by all ``world`` processes; the caller seals the folder."""
    tensors = _add_prefix("model", state.model.state_dict())
    tensors |= _add_prefix("ema", state.ema.state_dict())
    numbers: dict[str, Any] = {}
    for index, optimizer in enumerate(state.optimizers):
        for name, value in _optimizer_values(optimizer, f"optimizer.{index}").items():
            (tensors if isinstance(value, Tensor) else numbers)[name] = value
    with atomic_file(folder / TENSORS_NAME) as temporary:
        save_file(to_storable(tensors), temporary)
    facts = {"step": state.step, "world": world, "log": state.log, "numbers": numbers}
    write_json(folder / FACTS_NAME, facts)


def load_state(state: RunState, folder: pathlib.Path, *, devices: Devices) -> None:
    """Restore ``state`` from the checkpoint in ``folder``.

    The number of processes may differ from that of the writer: the carry is resharded by row. Order
    of summation and per-rank noise are then those of the new number.
    """
    tensors = load_file(folder / TENSORS_NAME, device=str(devices.device))
    facts = read_json(folder / FACTS_NAME)
    state.model.load_state_dict(_strip_prefix("model", tensors))
    state.ema.load_state_dict(_strip_prefix("ema", tensors))
    state.carry = _load_carry(folder, written_by=int(facts["world"]), devices=devices)
    for index, optimizer in enumerate(state.optimizers):
        prefix = f"optimizer.{index}"
        values = {**_strip_prefix(prefix, tensors), **_strip_prefix(prefix, facts["numbers"])}
        _restore_optimizer(optimizer, values)
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


def _add_prefix(prefix: str, values: Mapping[str, Tensor]) -> dict[str, Any]:
    return {f"{prefix}.{name}": value for name, value in values.items()}


def _strip_prefix(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    start = f"{prefix}."
    return {name[len(start) :]: value for name, value in values.items() if name.startswith(start)}


def _optimizer_values(optimizer: torch.optim.Optimizer, prefix: str) -> dict[str, Any]:
    return {
        f"{prefix}.{parameter}.{name}": value
        for parameter, values in optimizer.state_dict()["state"].items()
        for name, value in values.items()
    }


def _restore_optimizer(optimizer: torch.optim.Optimizer, values: Mapping[str, Any]) -> None:
    content = optimizer.state_dict()
    per_parameter: dict[int, dict[str, Any]] = {}
    for key, value in values.items():
        parameter, name = key.split(".", 1)
        per_parameter.setdefault(int(parameter), {})[name] = value
    content["state"] = per_parameter
    optimizer.load_state_dict(content)
