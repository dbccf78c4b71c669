"""The embedded engine's model with LoRA adapters that are attached and detached while it serves.

Adapters wrap the layers of the one copy of the base weights; the active one is switched between
steps. Not thread-safe: only the engine's thread calls, except for `MultiLoraModel.read`.
"""

import itertools
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from peft import PeftModel, set_peft_model_state_dict
from peft.tuners.tuners_utils import BaseTunerLayer

from pipeline_lib.engines.embedded.adapter_files import PREFIX, AdapterWeights, read_adapter
from pipeline_lib.engines.embedded.continuous_batch import ContinuousBatch
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.engines.embedded.generation import ChoiceBuilder
from pipeline_lib.errors import BadInputError, reason_of
from pipeline_lib.records import FinishReason

_SPARE_BYTES = 64 << 20
_BASE_LAYER = ".base_layer"


@dataclass(kw_only=True)
class MultiLoraModel:
    """A base model and its adapters; each batch runs under one of them or under none."""

    base: EmbeddedEngine
    threads: int
    """CPU threads of torch; another number rounds differently."""
    _peft: Any = field(init=False, default=None)
    _active: str | None = field(init=False, default=None)
    _serial: Iterator[int] = field(init=False, default_factory=itertools.count)

    @property
    def _most_bytes(self) -> int:
        """Limit of an adapter's file: with full rank on all layers it is twice the model."""
        numbers: int = sum(weight.numel() for weight in self.base.model.parameters())
        return _SPARE_BYTES + 4 * numbers

    def configure_thread(self) -> None:
        """Set torch's thread-local settings; call in the engine's thread."""
        torch.set_num_threads(self.threads)

    def open_batch(self) -> ContinuousBatch:
        """A new batch; call `activate` before each of its steps."""
        return self.base.open_batch()

    def activate(self, key: str | None) -> None:
        """Switch to one adapter; None: the base alone."""
        if self._peft is not None and key != self._active:
            self._peft.base_model.set_adapter([] if key is None else key, inference_mode=True)
            self._active = key

    def read(self, folder: pathlib.Path) -> AdapterWeights:
        """Read an adapter from ``folder``, in any thread: the model is not touched.

        Raises:
            BadInputError: it is not a plain LoRA adapter.
        """
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
        # What was loaded holds neither the base's weights nor those of other adapters.
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


@dataclass(slots=True, kw_only=True)
class Counters:
    """Sums since the start."""

    prompt_tokens: int = 0
    """Counted once per prompt, at its first completion token."""
    completion_tokens: int = 0
    finished: dict[FinishReason, int] = field(
        default_factory=lambda: {FinishReason.STOP: 0, FinishReason.LENGTH: 0}
    )


@dataclass(slots=True)
class Lane:
    """The batch of one adapter or of the base, and its open completions."""

    batch: ContinuousBatch
    choices: dict[int, ChoiceBuilder] = field(default_factory=dict)
    """By sequence id."""
    uncounted: dict[int, int] = field(default_factory=dict)
    """Prompt tokens by sequence id of a prompt's first completion, until its first token."""
    retired: bool = False
    """The adapter is detached after its last sequence."""


def is_out_of_memory(error: Exception) -> bool:
    """True if a step failed for lack of memory."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    # The CPU allocator raises a plain RuntimeError.
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)
