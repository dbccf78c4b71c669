"""LoRA adapters as folders: read and checked whole, before the served model is touched.

The folder's config is data from outside. PEFT would import a module that it names, run regular
expressions of it, allocate any rank and ask the hub for files that are not there; so only fields
whose meaning is known are passed on, and what they say must fit the weights. The reading may take
long: do it outside the thread that draws.
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
"""Twice the largest that vLLM serves."""
_CONFIG = "adapter_config.json"
_WEIGHTS = "adapter_model.safetensors"
_MAX_CONFIG_BYTES = 1 << 20
_RULE_CHARACTERS = 2000
_PREFIX = "base_model.model."
_RANK_FIRST = (".lora_A.weight", ".lora_embedding_A")
"""Endings of the matrices whose first axis is the rank."""

# They say where an adapter comes from or how it was trained, and change nothing that it computes.
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
    # PEFT takes these names for regular expressions; without a repetition they match in linear time.
    if not re.fullmatch(r"\^?[\w.-]{1,200}\$?", pattern):
        raise ValueError(f"{pattern[:40]!r} is no name of a module")
    return pattern


def _name(name: str) -> str:
    if not re.fullmatch(r"[\w.-]{1,200}", name):
        raise ValueError(f"{name[:40]!r} is no name of a module")
    return name


def _rule(rule: str) -> str:
    # It is never run: `_Config.targets` says what stands for it.
    try:
        re.compile(rule)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"no regular expression ({reason_of(error)})") from error
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
    """The fields of ``adapter_config.json`` that decide what is computed."""

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
        """Why this is not the plain kind of adapter, matrices on linear layers; None if it is."""
        if self.peft_type != "LORA":
            return f"peft_type={self.peft_type}; only LORA can be served"
        # Named initializations (PiSSA and its like) rewrite the weights below the adapter.
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
        """What PEFT is to take for ``target_modules``, given the ``modules`` that have weights.

        A rule (a regular expression, an exclusion, a choice of layers) gave the modules that have
        weights when the adapter was made, so these stand for it.
        """
        by_rule = isinstance(self.target_modules, str) and self.target_modules != "all-linear"
        others = (self.exclude_modules, self.layers_to_transform, self.layers_pattern)
        if by_rule or any(other not in (None, [], "") for other in others):
            return sorted(modules)
        return self.target_modules

    def lora(self, modules: set[str], *, largest_rank: int) -> LoraConfig:
        """The same as PEFT's own. No module gets a rank that none of the weights has."""
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
    """An adapter that may be put on a model."""

    config: LoraConfig
    tensors: Mapping[str, torch.Tensor]
    """By PEFT's names; all numbers are finite."""


def read_adapter(folder: pathlib.Path, *, max_bytes: int) -> AdapterWeights:
    """The adapter in ``folder``, whose weights may have ``max_bytes``.

    Only local safetensors are read: a request must reach neither the network nor a pickle.

    Raises:
        BadInputError: there is none, or it is not of the plain kind, or it is damaged.
    """
    try:
        return _read(folder, max_bytes)
    except BadInputError:
        raise
    except Exception as error:  # whatever is wrong with a file from outside, it is the file
        raise BadInputError(f"adapter {folder}: {reason_of(error)}; save it again") from error


def _read(folder: pathlib.Path, max_bytes: int) -> AdapterWeights:
    if missing := [name for name in (_CONFIG, _WEIGHTS) if not (folder / name).is_file()]:
        raise BadInputError(
            f"adapter {folder}: it has no {missing[0]}; give a folder saved by PEFT"
        )
    config = _read_config(folder)
    if problem := config.problem():
        raise BadInputError(f"adapter {folder}: {problem}")
    # All of it is read: a file that is mapped, and shortened by its writer, ends the process.
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
    """The module of the base that a tensor belongs to."""
    return name.removeprefix(_PREFIX).partition(".lora_")[0]


def _largest_rank(tensors: Mapping[str, torch.Tensor]) -> int:
    """Of all pairs of matrices; 0 if there is none."""
    firsts = (tensor for name, tensor in tensors.items() if name.endswith(_RANK_FIRST))
    return max((tensor.shape[0] for tensor in firsts if tensor.dim()), default=0)


def _misfit(config: _Config, largest_rank: int) -> str | None:
    """Why memory must not be allocated for it: PEFT does that by the config, before it sees weights."""
    asked = max((config.rank_pattern or {"": config.r}).values())
    if asked > largest_rank:
        return f"size mismatch: rank {asked} in {_CONFIG}, at most {largest_rank} in {_WEIGHTS}"
    return None


def _not_finite(tensors: Mapping[str, torch.Tensor]) -> str | None:
    """Which weights would make every answer a not-a-number."""
    for name, tensor in tensors.items():
        if not tensor.is_floating_point() or not tensor.float().isfinite().all():
            return f"{name} holds what is no finite number; train it again"
    return None
