"""The embedded engine's model with LoRA adapters that come and go while it serves.

Adapters sit on the model's own layers, so one copy of the weights serves the base and all of them;
which of them takes part in a step is switched before it. Nothing here locks: one thread calls.
"""

import itertools
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from peft import PeftModel, set_peft_model_state_dict
from peft.tuners.tuners_utils import BaseTunerLayer

from pipeline_lib.errors import BadInputError, reason_of
from pipeline_lib.serving.decoding.continuous_batch import ContinuousBatch
from pipeline_lib.serving.decoding.embedded_engine import EmbeddedEngine
from pipeline_lib.serving.front.adapter_files import AdapterWeights, read_adapter

_SPARE_BYTES = 64 << 20


@dataclass(kw_only=True)
class ServedModel:
    """What the serving thread drives: batches of one model, each under one adapter or none."""

    engine: EmbeddedEngine
    threads: int
    """CPU threads of torch. Sums over other numbers of threads round differently."""
    _peft: Any = field(init=False, default=None)
    _active: str | None = field(init=False, default=None)
    _serial: Iterator[int] = field(init=False, default_factory=itertools.count)

    @property
    def _most_bytes(self) -> int:
        """Of an adapter's file: one on all layers, of a rank as large as they are, is twice the model."""
        numbers: int = sum(weight.numel() for weight in self.engine.model.parameters())
        return _SPARE_BYTES + 4 * numbers

    def use_this_thread(self) -> None:
        """Set what torch keeps per thread; to be called by the thread that makes the steps."""
        torch.set_num_threads(self.threads)

    def open_batch(self) -> ContinuousBatch:
        """A new batch; before each of its steps `activate` says whose it is."""
        return self.engine.open_batch()

    def activate(self, key: str | None) -> None:
        """Let one adapter take part in what is computed next; None means the base alone."""
        if self._peft is not None and key != self._active:
            self._peft.base_model.set_adapter([] if key is None else key, inference_mode=True)
            self._active = key

    def read(self, folder: pathlib.Path) -> AdapterWeights:
        """Read an adapter, to be attached; in any thread, since the model stays as it is.

        Raises:
            BadInputError: no LoRA adapter of the plain kind.
        """
        return read_adapter(folder, max_bytes=self._most_bytes)

    def attach(self, adapter: AdapterWeights, *, source: pathlib.Path) -> str:
        """Put an adapter on the model; the answer names it for `activate` and `detach`.

        A reload gets another name, so that rows under the old weights can end under them.

        Raises:
            BadInputError: it does not fit this model, which is then as it was.
        """
        key = f"adapter_{next(self._serial)}"
        try:
            problem = self._put(adapter, key)
        except Exception as error:  # noqa: BLE001 - PEFT raises whatever its parts do
            problem = reason_of(error)
        if problem:
            self.detach(key)
            raise BadInputError(
                f"adapter {source}: {problem}; train it on the model that is served"
            )
        return key

    def _put(self, adapter: AdapterWeights, key: str) -> str | None:
        """Put the weights in place; what does not fit is the answer."""
        if self._peft is None:
            self._peft = PeftModel(self.engine.model, adapter.config, adapter_name=key)
        else:
            self._peft.add_adapter(key, adapter.config)
        result: Any = set_peft_model_state_dict(self._peft, dict(adapter.tensors), adapter_name=key)
        self._peft.eval()
        # A new adapter is active at first; none is until `activate` says so.
        self._peft.base_model.set_adapter([], inference_mode=True)
        self._active = None
        # The weights of the base and of other adapters are missing from an adapter's file by nature.
        missing = [name for name in result.missing_keys if f".{key}." in f"{name}."]
        if names := [*missing, *result.unexpected_keys]:
            return f"{len(names)} weights do not match the model, the first is {names[0]}"
        return None

    def detach(self, key: str) -> None:
        """Drop an adapter's weights; with the last one the model's own layers come back."""
        self._deactivate()
        if self._peft is None or not set(self._peft.peft_config) - {key}:
            self._peft = None
            _unwrap(self.engine.model)
        else:
            self._peft.peft_config.pop(key, None)
            for module in self.engine.model.modules():
                if isinstance(module, BaseTunerLayer):
                    module.delete_adapter(key)

    def _deactivate(self) -> None:
        """Let no adapter take part; PEFT may have given up with the new one half in place."""
        if self._peft is not None:
            self._peft.base_model.set_adapter([], inference_mode=True)
        self._active = None


def _unwrap(model: Any) -> None:
    """Put the model's own layers back after PEFT gave up in the middle."""
    for name, layer in list(model.named_modules()):
        if isinstance(layer, BaseTunerLayer):
            model.set_submodule(name, layer.get_base_layer())
    if hasattr(model, "peft_config"):
        del model.peft_config
