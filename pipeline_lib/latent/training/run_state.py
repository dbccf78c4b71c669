"""All that a training needs to go on, in a sealed folder: tensors as safetensors, the rest as JSON.

Random numbers have no state here: those of step n come from seed and n alone. Names of tensors are
``model.NAME``, ``ema.NAME`` and ``optimizer.I.PARAMETER.NAME``. What rows carry stands in a file for
each device, so that a training may go on with another number of devices.
"""

import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from pipeline_lib.latent.model.protocol import Carry
from pipeline_lib.latent.model.prr import PrrModel
from pipeline_lib.latent.model.saved_model import storable
from pipeline_lib.latent.model.trm import TrmModel
from pipeline_lib.latent.training.devices import Devices
from pipeline_lib.latent.training.ema import Ema
from pipeline_lib.storage.files import atomic_file, read_json, write_json

TENSORS_NAME = "state.safetensors"
FACTS_NAME = "state.json"


@dataclass(slots=True, kw_only=True)
class RunState:
    """A training between two steps. It is changed in place, step by step."""

    model: PrrModel | TrmModel
    ema: Ema
    """Its averaged weights: what is evaluated and published."""
    optimizers: Sequence[torch.optim.Optimizer]
    carry: Carry | None = None
    step: int = 0
    """Steps that are done."""
    log: list[dict[str, float]] = field(default_factory=list)


def has_finite_weights(state: RunState) -> bool:
    """Whether no weight, average or puzzle vector is NaN or infinite."""
    tensors = [*state.model.state_dict().values(), *state.ema.state_dict().values()]
    return all(bool(tensor.isfinite().all()) for tensor in tensors)


def save_carry(state: RunState, folder: pathlib.Path, *, rank: int) -> None:
    """Write what this process alone carries to the next step, if anything."""
    if state.carry is not None:
        with atomic_file(folder / _carry_name(rank)) as temporary:
            save_file(storable(state.carry), temporary)


def save_state(state: RunState, folder: pathlib.Path, *, world: int) -> None:
    """Write what all of ``world`` processes share; sealing the folder is left to the caller."""
    tensors = _prefixed("model", state.model.state_dict())
    tensors |= _prefixed("ema", state.ema.state_dict())
    numbers: dict[str, Any] = {}
    for index, optimizer in enumerate(state.optimizers):
        for name, value in _optimizer_values(optimizer, f"optimizer.{index}").items():
            (tensors if isinstance(value, Tensor) else numbers)[name] = value
    with atomic_file(folder / TENSORS_NAME) as temporary:
        save_file(storable(tensors), temporary)
    facts = {"step": state.step, "world": world, "log": state.log, "numbers": numbers}
    write_json(folder / FACTS_NAME, facts)


def load_state(state: RunState, folder: pathlib.Path, *, devices: Devices) -> None:
    """Bring ``state`` to where the checkpoint in ``folder`` was.

    Another number of devices may have written it: every row finds what it carried. Sums, and noise
    where there is any, are from there on those of the new number.
    """
    tensors = load_file(folder / TENSORS_NAME, device=str(devices.device))
    facts = read_json(folder / FACTS_NAME)
    state.model.load_state_dict(_below("model", tensors))
    state.ema.load_state_dict(_below("ema", tensors))
    state.carry = _carried(folder, written_by=int(facts["world"]), devices=devices)
    for index, optimizer in enumerate(state.optimizers):
        prefix = f"optimizer.{index}"
        values = {**_below(prefix, tensors), **_below(prefix, facts["numbers"])}
        _restore_optimizer(optimizer, values)
    state.step = int(facts["step"])
    state.log = facts["log"]


def _carried(folder: pathlib.Path, *, written_by: int, devices: Devices) -> Carry | None:
    """What the rows of this process carry: rank r of ``world`` has rows r, r + world, ... of a batch."""
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


def _prefixed(prefix: str, values: Mapping[str, Tensor]) -> dict[str, Any]:
    return {f"{prefix}.{name}": value for name, value in values.items()}


def _below(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
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
