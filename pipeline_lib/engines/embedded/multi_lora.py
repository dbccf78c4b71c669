"""The embedded engine's model with LoRA adapters that are attached and detached while it serves.

Adapters wrap the layers of the one copy of the base weights; the active one is switched between
steps. Not thread-safe: only the engine's thread calls, except for `MultiLoraModel.read`.
"""

import itertools
import pathlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import torch
from peft import LoraConfig, PeftModel, set_peft_model_state_dict
from peft.tuners.tuners_utils import BaseTunerLayer
from pydantic import BaseModel, Field, StringConstraints
from safetensors.torch import load

from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.errors import BadInputError, errors_at, reason_of

MAX_RANK = 1024
"""Twice vLLM's maximum."""
_CONFIG = "adapter_config.json"
_WEIGHTS = "adapter_model.safetensors"
_MAX_CONFIG_BYTES = 1 << 20
PREFIX = "base_model.model."
"""Of the names of tensors, before the name of the module."""
_RANK_FIRST = (".lora_A.weight", ".lora_embedding_A")
"""Suffixes of the matrices whose first axis is the rank."""

_WITHOUT_EFFECT = {
    *("auto_mapping", "base_model_name_or_path", "corda_config", "ensure_weight_tying"),
    *("eva_config", "exclude_modules", "inference_mode", "layers_pattern"),
    *("layers_to_transform", "loftq_config", "lora_dropout", "lora_ga_config"),
    *("megatron_core", "monteclora_config", "peft_version", "qalora_group_size"),
    *("revision", "runtime_config", "target_modules", "task_type", "velora_config"),
}
"""Origin and training of an adapter; what its rules of targets selected has weights."""

_Rank = Annotated[int, Field(ge=1, le=MAX_RANK)]
_Alpha = Annotated[float, Field(ge=-1e6, le=1e6, allow_inf_nan=False)]
# PEFT uses these as regular expressions; without repetition they match in linear time.
_Pattern = Annotated[str, StringConstraints(pattern=r"^\^?[A-Za-z0-9_.-]{1,200}\$?$")]


class _Config(BaseModel, extra="allow", frozen=True, strict=True):
    """The fields of ``adapter_config.json`` that affect the adapter's output."""

    peft_type: str
    r: _Rank
    lora_alpha: _Alpha
    rank_pattern: dict[_Pattern, _Rank] | None = None
    alpha_pattern: dict[_Pattern, _Alpha] | None = None
    bias: str = "none"
    init_lora_weights: bool | str = True
    fan_in_fan_out: bool = False
    use_rslora: bool = False
    use_dora: bool = False
    lora_bias: bool = False

    def problem(self, largest_rank: int) -> str | None:
        """The reason why this is not a plain LoRA adapter with weights of ``largest_rank``, or None."""
        if self.peft_type != "LORA":
            return f"peft_type={self.peft_type}; only LORA can be served"
        # Named initializations, such as PiSSA, change the base weights.
        if isinstance(made := self.init_lora_weights, str) and made != "gaussian":
            return (
                f"init_lora_weights={made} changes the model below it; convert it to a plain LoRA "
                "adapter when saving, or merge it and serve the model"
            )
        if self.bias != "none":
            return f"bias={self.bias}; merge it and serve the model"
        for name, value in (self.model_extra or {}).items():
            if value and name not in _WITHOUT_EFFECT:
                return f"it has {name}; merge it and serve the model"
        # PEFT would allocate a larger rank before it reads the weights.
        rank = max((self.rank_pattern or {"": self.r}).values())
        if rank > largest_rank:
            return f"size mismatch: rank {rank} in {_CONFIG}, at most {largest_rank} in {_WEIGHTS}"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterWeights:
    """A validated adapter."""

    config: LoraConfig
    tensors: Mapping[str, torch.Tensor]
    """By PEFT's names; all values are finite."""


def read_adapter(folder: pathlib.Path, *, max_bytes: int) -> AdapterWeights:
    """Read the adapter in ``folder``, with a weights file of at most ``max_bytes``.

    Only local safetensors are read: no network access, no pickle.

    Raises:
        BadInputError: the folder holds no adapter, or one that is not plain LoRA, or is damaged.
    """
    # Files from outside can be wrong in any way.
    with errors_at(f"adapter {folder}", Exception, remedy="save it again"):
        return _read(folder, max_bytes)


def _read(folder: pathlib.Path, max_bytes: int) -> AdapterWeights:
    if missing := [name for name in (_CONFIG, _WEIGHTS) if not (folder / name).is_file()]:
        raise BadInputError(f"it has no {missing[0]}; give a folder saved by PEFT")
    with errors_at(_CONFIG):
        config = _Config.model_validate_json(_content(folder / _CONFIG, _MAX_CONFIG_BYTES))
    # Read, not mapped: a mapped file that its writer truncates ends the process.
    tensors = load(_content(folder / _WEIGHTS, max_bytes))
    firsts = (tensor for name, tensor in tensors.items() if name.endswith(_RANK_FIRST))
    largest_rank = max((tensor.shape[0] for tensor in firsts if tensor.dim()), default=0)
    if problem := config.problem(largest_rank) or _not_finite(tensors):
        raise BadInputError(problem)
    lora = LoraConfig(
        r=min(config.r, largest_rank),
        lora_alpha=config.lora_alpha,  # type: ignore[arg-type]
        target_modules=sorted(
            {name.removeprefix(PREFIX).partition(".lora_")[0] for name in tensors}
        ),
        rank_pattern=dict(config.rank_pattern or {}),
        alpha_pattern=dict(config.alpha_pattern or {}),
        fan_in_fan_out=config.fan_in_fan_out,
        use_rslora=config.use_rslora,
        use_dora=config.use_dora,
        lora_bias=config.lora_bias,
        inference_mode=True,
    )
    return AdapterWeights(config=lora, tensors=tensors)


def _content(path: pathlib.Path, max_bytes: int) -> bytes:
    with path.open("rb") as stream:
        content = stream.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise BadInputError(f"{path.name}: more than {max_bytes} bytes; give a smaller file")
    return content


def _not_finite(tensors: Mapping[str, torch.Tensor]) -> str | None:
    """The first weights with NaN or infinity, which would spread to every completion."""
    for name, tensor in tensors.items():
        if not tensor.is_floating_point() or not tensor.float().isfinite().all():
            return f"{name} has NaN or infinite values; train it again"
    return None


_SPARE_BYTES = 64 << 20
_BASE_LAYER = ".base_layer"


@dataclass(kw_only=True)
class MultiLoraModel:
    """A base model and its adapters; each batch runs under one of them or under none."""

    base: EmbeddedEngine
    _peft: Any = field(init=False, default=None)
    _active: str | None = field(init=False, default=None)
    _serial: Iterator[int] = field(init=False, default_factory=itertools.count)

    @property
    def _most_bytes(self) -> int:
        """Limit of an adapter's file: with full rank on all layers it is twice the model."""
        numbers: int = sum(weight.numel() for weight in self.base.model.parameters())
        return _SPARE_BYTES + 4 * numbers

    def activate(self, key: str | None) -> None:
        """Switch to one adapter; None: the base alone."""
        if self._peft is not None and key != self._active:
            self._peft.base_model.set_adapter([] if key is None else key, inference_mode=True)
            self._active = key

    def read(self, folder: pathlib.Path) -> AdapterWeights:
        """Read an adapter, in any thread: the model is not touched. BadInputError: it is not plain LoRA."""
        return read_adapter(folder, max_bytes=self._most_bytes)

    def attach(self, adapter: AdapterWeights, *, source: pathlib.Path) -> str:
        """Attach an adapter to the model and return its key, for `activate` and `detach`.

        Every call gives a new key, so that sequences under replaced weights end under these.

        Raises:
            BadInputError: it does not fit the model, which is left unchanged.
        """
        key = f"adapter_{next(self._serial)}"
        try:
            problem = self._load_weights(adapter, key)
        except Exception as error:  # noqa: BLE001 - PEFT raises errors of many kinds
            problem = reason_of(error)
        if problem:
            self.detach(key)
            raise BadInputError(
                f"adapter {source}: {problem}; train it on the model that is served"
            )
        return key

    def _load_weights(self, adapter: AdapterWeights, key: str) -> str | None:
        """Load the weights; returns a description of any mismatch."""
        # PEFT saves embeddings beside adapters on them, and would load any weight into the base.
        tensors = {name: one for name, one in adapter.tensors.items() if ".lora_" in name}
        if others := sorted(adapter.tensors.keys() - tensors.keys()):
            own = {_base_name(weight): one for weight, one in self.base.model.state_dict().items()}
            for name in others:
                if not _is_own(own.get(_base_name(name)), adapter.tensors[name]):
                    return f"its file holds {name}, which is not the weight of the served model"
        if self._peft is None:
            self._peft = PeftModel(self.base.model, adapter.config, adapter_name=key)
        else:
            self._peft.add_adapter(key, adapter.config)
        result: Any = set_peft_model_state_dict(self._peft, tensors, adapter_name=key)
        self._peft.eval()
        # PEFT activates a new adapter.
        self._peft.base_model.set_adapter([], inference_mode=True)
        self._active = None
        # What was loaded holds neither the base's weights nor other adapters' weights.
        missing = [name for name in result.missing_keys if f".{key}." in f"{name}."]
        if names := [*missing, *result.unexpected_keys]:
            return f"{len(names)} weights do not match the model, the first is {names[0]}"
        return None

    def detach(self, key: str) -> None:
        """Drop an adapter's weights; after the last one the base's layers are unwrapped."""
        self._deactivate()
        if self._peft is None or not set(self._peft.peft_config) - {key}:
            self._peft = None
            _unwrap(self.base.model)
        else:
            self._peft.peft_config.pop(key, None)
            for module in self.base.model.modules():
                if isinstance(module, BaseTunerLayer):
                    module.delete_adapter(key)

    def _deactivate(self) -> None:
        """Switch all adapters off, also after PEFT failed half-way through a new one."""
        if self._peft is not None:
            self._peft.base_model.set_adapter([], inference_mode=True)
        self._active = None


def _unwrap(model: Any) -> None:
    """Restore the base's layers, also after PEFT failed half-way."""
    for name, layer in list(model.named_modules()):
        if isinstance(layer, BaseTunerLayer):
            model.set_submodule(name, layer.get_base_layer())
    if hasattr(model, "peft_config"):
        del model.peft_config


def _base_name(name: str) -> str:
    return name.removeprefix(PREFIX).replace(_BASE_LAYER, "")


def _is_own(own: torch.Tensor | None, stored: torch.Tensor) -> bool:
    """True if a weight of an adapter's file is the base's own, up to rounding to bfloat16."""
    return own is not None and torch.equal(own.bfloat16().cpu(), stored.bfloat16())
