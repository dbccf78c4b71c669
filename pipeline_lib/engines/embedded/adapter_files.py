"""LoRA adapter folders, read and validated before the served model is touched.

The config is untrusted: PEFT would import a module that it names, run its regular expressions,
allocate any rank and request missing files from the hub. So only known fields are passed on, and
they must fit the weights. Reading may take long: do it outside the engine's thread.
"""

import pathlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import torch
from peft import LoraConfig
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from safetensors.torch import load

from pipeline_lib.errors import BadInputError, first_fault, reason_of

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
    "auto_mapping",
    "base_model_name_or_path",
    "corda_config",
    "ensure_weight_tying",
    "eva_config",
    "exclude_modules",
    "inference_mode",
    "layers_pattern",
    "layers_to_transform",
    "loftq_config",
    "lora_dropout",
    "lora_ga_config",
    "megatron_core",
    "monteclora_config",
    "peft_version",
    "qalora_group_size",
    "revision",
    "runtime_config",
    "target_modules",
    "task_type",
    "velora_config",
}
"""Origin and training of an adapter; what its rules of targets selected has weights."""

_Rank = Annotated[int, Field(ge=1, le=MAX_RANK)]
_Alpha = Annotated[float, Field(ge=-1e6, le=1e6, allow_inf_nan=False)]
# PEFT uses these as regular expressions; without repetition they match in linear time.
_Pattern = Annotated[str, StringConstraints(pattern=r"^\^?[A-Za-z0-9_.-]{1,200}\$?$")]


class _Config(BaseModel):
    """The fields of ``adapter_config.json`` that affect the adapter's output."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

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
    try:
        return _read(folder, max_bytes)
    except BadInputError as error:
        raise BadInputError(f"adapter {folder}: {error}") from error
    except ValidationError as error:
        raise BadInputError(f"adapter {folder}: {_CONFIG}: {first_fault(error)}") from error
    except Exception as error:  # files from outside can be wrong in any way
        raise BadInputError(f"adapter {folder}: {reason_of(error)}; save it again") from error


def _read(folder: pathlib.Path, max_bytes: int) -> AdapterWeights:
    if missing := [name for name in (_CONFIG, _WEIGHTS) if not (folder / name).is_file()]:
        raise BadInputError(f"it has no {missing[0]}; give a folder saved by PEFT")
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
