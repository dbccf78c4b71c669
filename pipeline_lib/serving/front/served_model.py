"""The embedded engine's model with LoRA adapters that come and go while it serves.

Adapters sit on the model's own layers, so one copy of the weights serves the base and all of them;
which of them takes part in a step is switched before it. Nothing here locks: one thread calls.
"""

import itertools
import json
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from peft import LoraConfig, PeftModel
from peft.tuners.tuners_utils import BaseTunerLayer
from safetensors import SafetensorError

from pipeline_lib.errors import BadInputError
from pipeline_lib.serving.continuous import ContinuousBatch
from pipeline_lib.serving.embedded import EmbeddedEngine

_REASON_CHARACTERS = 300
_CONFIG = "adapter_config.json"
_WEIGHTS = "adapter_model.safetensors"


@dataclass(kw_only=True)
class ServedModel:
    """What the serving thread drives: batches of one model, each under one adapter or none."""

    engine: EmbeddedEngine
    threads: int
    """CPU threads of torch. Sums over other numbers of threads round differently."""
    _peft: Any = field(init=False, default=None)
    _active: str | None = field(init=False, default=None)
    _serial: Iterator[int] = field(init=False, default_factory=itertools.count)

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

    def attach(self, folder: pathlib.Path) -> str:
        """Load an adapter; the answer names it for `activate` and `detach`.

        A reload gets another name, so that rows under the old weights can end under them.

        Raises:
            BadInputError: no LoRA adapter, or none for this model. The model is then as it was.
        """
        config = _adapter_config(folder)
        key = f"adapter_{next(self._serial)}"
        try:
            problem = self._load(folder, config, key)
        except (ValueError, RuntimeError, KeyError, TypeError, OSError, SafetensorError) as error:
            problem = " ".join(str(error).split())[:_REASON_CHARACTERS]
        if problem:
            self.detach(key)
            raise BadInputError(
                f"adapter {folder}: {problem}; train it on the model that is served"
            )
        return key

    def _load(self, folder: pathlib.Path, config: LoraConfig, key: str) -> str | None:
        """Put the weights in place; what does not fit is the answer."""
        if self._peft is None:
            self._peft = PeftModel(self.engine.model, config, adapter_name=key)
        result = self._peft.load_adapter(str(folder), key)
        self._peft.eval()
        # A new adapter is active at first; none is until `activate` says so.
        self._peft.base_model.set_adapter([], inference_mode=True)
        self._active = None
        if result.missing_keys or result.unexpected_keys:
            names = [*result.missing_keys, *result.unexpected_keys]
            return f"{len(names)} weights do not match the model, the first is {names[0]}"
        return None

    def detach(self, key: str) -> None:
        """Drop an adapter's weights; with the last one the model's own layers come back."""
        self.activate(None)
        if self._peft is None:
            _unwrap(self.engine.model)
        elif key in self._peft.peft_config and len(self._peft.peft_config) > 1:
            self._peft.base_model.delete_adapter(key)
        elif key in self._peft.peft_config:
            self._peft.base_model.unload()
            self._peft = None


def _adapter_config(folder: pathlib.Path) -> LoraConfig:
    """The config of a LoRA adapter of the plain kind: matrices on linear layers, nothing else.

    Only local safetensors are read: a request must reach neither the network nor a pickle.
    """
    if missing := [name for name in (_CONFIG, _WEIGHTS) if not (folder / name).is_file()]:
        raise BadInputError(
            f"adapter {folder}: it has no {missing[0]}; give a folder saved by PEFT"
        )
    try:
        fields: dict[str, Any] = json.loads((folder / _CONFIG).read_text(encoding="utf-8"))
        if (kind := fields.get("peft_type")) != "LORA":
            raise BadInputError(f"adapter {folder}: peft_type={kind}; only LORA can be served")
        # Named initializations (PiSSA and its like) rewrite the weights below the adapter.
        if isinstance(made := fields.get("init_lora_weights", True), str) and made != "gaussian":
            raise BadInputError(
                f"adapter {folder}: init_lora_weights={made} changes the model below it; convert it to "
                "a plain LoRA adapter when saving, or merge it and serve the model"
            )
        for name in ("modules_to_save", "trainable_token_indices", "layer_replication"):
            if fields.get(name):
                raise BadInputError(
                    f"adapter {folder}: it has {name}; merge it and serve the model"
                )
        if (bias := fields.get("bias", "none")) != "none":
            raise BadInputError(f"adapter {folder}: bias={bias}; merge it and serve the model")
        config: LoraConfig = LoraConfig.from_pretrained(str(folder), inference_mode=True)
    except (ValueError, TypeError, AttributeError) as error:
        raise BadInputError(f"adapter {folder}: {_CONFIG} cannot be read: {error}") from error
    return config


def _unwrap(model: Any) -> None:
    """Put the model's own layers back after PEFT gave up in the middle."""
    for name, layer in list(model.named_modules()):
        if isinstance(layer, BaseTunerLayer):
            model.set_submodule(name, layer.get_base_layer())
