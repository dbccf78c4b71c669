"""Low-rank adapters on all linear layers: configured, saved, checked, loaded, merged.

A policy is saved merged, so that no reader needs PEFT, with its adapter in a folder of its own. An adapter
names its base by digest, since folders move.
"""

import pathlib
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.tuners.tuners_utils import BaseTunerLayer
from peft.utils.other import AuxiliaryTrainingWrapper
from torch.nn.parallel import DistributedDataParallel

from pipeline_lib.engines.identity import model_identity
from pipeline_lib.errors import BadInputError, errors_at
from pipeline_lib.params.train import LoraParams
from pipeline_lib.store import manifests
from pipeline_lib.store.files import read_json, write_json

FOLDER = "adapter"
"""Folder of the adapter in the result of a phase."""
PUBLISHED = "adapters"
"""Folder of the adapters of all phases in a policy's folder."""
KIND = "adapter"
_CONFIG = "adapter_config.json"
_ADAPTED = (BaseTunerLayer, AuxiliaryTrainingWrapper)


def make_lora_config(params: LoraParams) -> LoraConfig | None:
    """The ``peft_config`` of TRL's trainers; None for full fine-tuning.

    Source: Hu et al. 2021 (arXiv:2106.09685); all linear layers rather than attention alone.
    """
    if not params.enabled:
        return None
    return LoraConfig(
        r=params.rank,
        lora_alpha=params.alpha,
        lora_dropout=0.0,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )


def attach(model: Any, params: LoraParams, *, checkpointing: bool) -> Any:
    """``model`` with new adapters, or unchanged for full fine-tuning.

    TRL's trainers do this themselves. ``checkpointing``: gradient checkpointing is on.
    """
    config = make_lora_config(params)
    if config is None:
        return model
    if checkpointing:
        # Gradient checkpointing needs an input that requires grad; the embeddings are frozen.
        model.enable_input_require_grads()
    return get_peft_model(model, config)


def plain_model(model: Any) -> Any:
    """The model below adapters and below the wrapper of a training on several processes."""
    inner = model.module if isinstance(model, DistributedDataParallel) else model
    return inner.get_base_model() if isinstance(inner, PeftModel) else inner


def merge(model: PeftModel) -> Any:
    """The plain model, with adapters added to its weights; tied weights are untied if one has an adapter."""
    plain: Any = model.get_base_model()
    both = (plain.get_input_embeddings(), plain.get_output_embeddings())
    if plain.config.tie_word_embeddings and any(isinstance(one, _ADAPTED) for one in both):
        for module in both[1].modules():
            for name, weight in list(module.named_parameters(recurse=False)):
                setattr(module, name, torch.nn.Parameter(weight.detach().clone()))
        # In a model of text and images the text part has a config of its own.
        for config in (plain.config, plain.config.get_text_config()):
            config.tie_word_embeddings = False
    return model.merge_and_unload()


def save(model: PeftModel, folder: pathlib.Path, *, base: str) -> None:
    """Write the adapter of ``model`` as PEFT does, and seal it; ``base`` is the folder or id of its base."""
    identity = model_identity(base)
    model.save_pretrained(str(folder))
    # PEFT's card names local folders, and its config lists modules in the order of a set.
    (folder / "README.md").unlink(missing_ok=True)
    config = read_json(folder / _CONFIG)
    for name, value in config.items():
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            config[name] = sorted(value)
    write_json(folder / _CONFIG, config | {"base_model_name_or_path": identity})
    manifests.seal(folder, kind=KIND, key=identity)


def check(folder: pathlib.Path) -> manifests.Manifest | None:
    """The manifest of an intact adapter; None for one that was saved by another program.

    Raises:
        BadInputError: there is no adapter, or it does not match its manifest.
    """
    if not (folder / _CONFIG).is_file():
        raise BadInputError(
            f"{folder}: no {_CONFIG}; give an adapter's folder, as models/policy/{PUBLISHED}/1-sft"
        )
    if not (folder / manifests.MANIFEST_NAME).is_file():
        return None
    manifest = manifests.read_manifest(folder)
    manifests.check(folder, manifest)
    return manifest


def check_base(folder: pathlib.Path, base: str) -> None:
    """Refuse an adapter whose manifest names another base than ``base``.

    Raises:
        BadInputError: the bases differ; the message names both digests.
    """
    manifest = check(folder)
    if manifest is not None and manifest.key != model_identity(base):
        raise BadInputError(
            f"{folder}: trained on a base with digest {manifest.key}, but {base} has "
            f"{model_identity(base)}; give that base, and all adapters on it in order"
        )


def load(model: Any, folder: pathlib.Path) -> PeftModel:
    """Apply the adapter of ``folder`` to ``model``.

    Raises:
        BadInputError: its layers or shapes do not fit ``model``, or its config imports code.
    """
    config = read_json(folder / _CONFIG)
    if not isinstance(config, dict) or config.get("megatron_config"):
        raise BadInputError(f"{folder}: {_CONFIG} is of no plain adapter; save it with PEFT again")
    # PEFT raises whatever its parts do.
    with errors_at(folder, Exception, fault="does not fit this model"):
        # PEFT would load the weights through the GPU, wherever the model is.
        return PeftModel.from_pretrained(model, folder, torch_device=str(model.device))
