"""LoRA adapter folders, read and validated before the served model is touched.

The config is untrusted: PEFT would import a module that it names, run its regular expressions,
allocate any rank and request missing files from the hub. So only known fields are passed on, and
they must fit the weights. Reading may take long: do it outside the engine's thread.
"""

import json
import math
import pathlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from peft import LoraConfig
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from safetensors.torch import load

from pipeline_lib.errors import BadInputError, reason_of

MAX_RANK = 1024
"""Twice vLLM's maximum."""
_CONFIG = "adapter_config.json"
_WEIGHTS = "adapter_model.safetensors"
_MAX_CONFIG_BYTES = 1 << 20
_RULE_CHARACTERS = 2000
PREFIX = "base_model.model."
"""Of the names of tensors, before the name of the module."""
_RANK_FIRST = (".lora_A.weight", ".lora_embedding_A")
"""Suffixes of the matrices whose first axis is the rank."""

# Origin and training of an adapter, without effect on its output.
_WITHOUT_EFFECT = {
    "auto_mapping",
    "base_model_name_or_path",
    "corda_config",
    "ensure_weight_tying",
    "eva_config",
    "inference_mode",
    "loftq_config",
    "lora_dropout",
    "lora_ga_config",
    "megatron_core",
    "monteclora_config",
    "peft_version",
    "qalora_group_size",
    "revision",
    "runtime_config",
    "task_type",
    "velora_config",
}


def _plain_pattern(pattern: str) -> str:
    # PEFT uses these as regular expressions; without repetition they match in linear time.
    if not re.fullmatch(r"\^?[\w.-]{1,200}\$?", pattern):
        raise ValueError(f"{pattern[:40]!r} is not a module name")
    return pattern


def _name(name: str) -> str:
    if not re.fullmatch(r"[\w.-]{1,200}", name):
        raise ValueError(f"{name[:40]!r} is not a module name")
    return name


def _rule(rule: str) -> str:
    # Never run: see `_Config.targets`.
    try:
        re.compile(rule)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"not a regular expression ({reason_of(error)})") from error
    return rule


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("it is not finite")
    return value


_Rank = Annotated[int, Field(ge=1, le=MAX_RANK)]
_Alpha = Annotated[float, BeforeValidator(_finite), Field(ge=-1e6, le=1e6)]
_Name = Annotated[str, AfterValidator(_name)]
_Pattern = Annotated[str, AfterValidator(_plain_pattern)]
_Rule = Annotated[str, Field(max_length=_RULE_CHARACTERS), AfterValidator(_rule)]


class _Config(BaseModel):
    """The fields of ``adapter_config.json`` that affect the adapter's output."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    peft_type: str
    r: _Rank
    lora_alpha: _Alpha
    target_modules: list[_Name] | _Rule | None = None
    exclude_modules: list[_Name] | _Rule | None = None
    layers_to_transform: list[int] | int | None = None
    layers_pattern: list[_Rule] | _Rule | None = None
    rank_pattern: dict[_Pattern, _Rank] | None = None
    alpha_pattern: dict[_Pattern, _Alpha] | None = None
    bias: str = "none"
    init_lora_weights: bool | str = True
    fan_in_fan_out: bool = False
    use_rslora: bool = False
    use_dora: bool = False
    lora_bias: bool = False

    def problem(self) -> str | None:
        """The reason why this is not a plain LoRA adapter of linear layers, or None."""
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
        return None

    def targets(self, modules: set[str]) -> list[str] | str | None:
        """``target_modules`` for PEFT, given the ``modules`` that have weights.

        A rule (a regular expression, an exclusion, a choice of layers) is replaced by these
        modules, which it selected when the adapter was made.
        """
        by_rule = isinstance(self.target_modules, str) and self.target_modules != "all-linear"
        others = (self.exclude_modules, self.layers_to_transform, self.layers_pattern)
        if by_rule or any(other not in (None, [], "") for other in others):
            return sorted(modules)
        return self.target_modules

    def lora(self, modules: set[str], *, largest_rank: int) -> LoraConfig:
        """As PEFT's config, with ranks limited to ``largest_rank`` of the weights."""
        return LoraConfig(
            r=min(self.r, largest_rank),
            lora_alpha=self.lora_alpha,  # type: ignore[arg-type]
            target_modules=self.targets(modules),
            rank_pattern=dict(self.rank_pattern or {}),
            alpha_pattern=dict(self.alpha_pattern or {}),
            fan_in_fan_out=self.fan_in_fan_out,
            use_rslora=self.use_rslora,
            use_dora=self.use_dora,
            lora_bias=self.lora_bias,
            inference_mode=True,
        )


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
    try:
        return _read(folder, max_bytes)
    except BadInputError:
        raise
    except Exception as error:  # files from outside can be wrong in any way
        raise BadInputError(f"adapter {folder}: {reason_of(error)}; save it again") from error


def _read(folder: pathlib.Path, max_bytes: int) -> AdapterWeights:
    if missing := [name for name in (_CONFIG, _WEIGHTS) if not (folder / name).is_file()]:
        raise BadInputError(
            f"adapter {folder}: it has no {missing[0]}; give a folder saved by PEFT"
        )
    config = _read_config(folder)
    if problem := config.problem():
        raise BadInputError(f"adapter {folder}: {problem}")
    # Read, not mapped: a mapped file that its writer truncates ends the process.
    tensors = load(_content(folder / _WEIGHTS, max_bytes))
    rank = _largest_rank(tensors)
    if problem := _misfit(config, rank) or _not_finite(tensors):
        raise BadInputError(f"adapter {folder}: {problem}")
    lora = config.lora({_module_of(name) for name in tensors}, largest_rank=rank)
    return AdapterWeights(config=lora, tensors=tensors)


def _content(path: pathlib.Path, max_bytes: int) -> bytes:
    with path.open("rb") as stream:
        content = stream.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise BadInputError(f"{path}: more than {max_bytes} bytes; give a smaller file")
    return content


def _read_config(folder: pathlib.Path) -> _Config:
    try:
        content = _content(folder / _CONFIG, _MAX_CONFIG_BYTES)
        return _Config.model_validate(json.loads(content))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"][:2])) or "the whole"
        raise BadInputError(
            f"adapter {folder}: {_CONFIG} cannot be read: {where}: {first['msg']}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise BadInputError(
            f"adapter {folder}: {_CONFIG} cannot be read: {reason_of(error)}"
        ) from error


def _module_of(name: str) -> str:
    """The base module of a tensor."""
    return name.removeprefix(PREFIX).partition(".lora_")[0]


def _largest_rank(tensors: Mapping[str, torch.Tensor]) -> int:
    """Largest rank of the matrices; 0 without any."""
    firsts = (tensor for name, tensor in tensors.items() if name.endswith(_RANK_FIRST))
    return max((tensor.shape[0] for tensor in firsts if tensor.dim()), default=0)


def _misfit(config: _Config, largest_rank: int) -> str | None:
    """A config rank above that of the weights: PEFT would allocate it before reading these."""
    rank = max((config.rank_pattern or {"": config.r}).values())
    if rank > largest_rank:
        return f"size mismatch: rank {rank} in {_CONFIG}, at most {largest_rank} in {_WEIGHTS}"
    return None


def _not_finite(tensors: Mapping[str, torch.Tensor]) -> str | None:
    """The first weights with NaN or infinity, which would spread to every completion."""
    for name, tensor in tensors.items():
        if not tensor.is_floating_point() or not tensor.float().isfinite().all():
            return f"{name} has NaN or infinite values; train it again"
    return None
