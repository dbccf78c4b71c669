"""Policies on disk: loaded for training, saved as plain Hugging Face folders.

A saved folder holds the weights in float32 with adapters merged in, the tokenizer, the training log and a
manifest; a trained adapter is in a subfolder.
"""

import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from peft import PeftModel
from transformers import AutoTokenizer

from pipeline_lib.engines.pretrained import load_pretrained
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.train import LoraParams
from pipeline_lib.problems.trained import write_record
from pipeline_lib.store import manifests
from pipeline_lib.store.files import write_json_lines
from pipeline_lib.store.folders import replaced
from pipeline_lib.store.manifests import Manifest
from pipeline_lib.train.devices import present_devices
from pipeline_lib.train.token_budget import WEIGHT_COUNTS, Tokens
from pipeline_lib.train.weights import adapters, models

KIND = "model"
LOG_NAME = "training_log.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A model with its tokenizer, ready for training."""

    model: Any
    tokenizer: Any
    source: str
    """Folder or hub id that it was loaded from."""


FULL = LoraParams(enabled=False)
"""Full fine-tuning."""


def load_policy(source: str, *, lora: LoraParams = FULL) -> Policy:
    """Load a Hugging Face folder or hub id, in `models.training_dtype`, or with a quantized base.

    Raises:
        BadInputError: the model cannot be read, its tokenizer has no end token, or a quantized base is
            asked for without CUDA or bitsandbytes.
    """
    dtype = models.training_dtype(trains_weights=not lora.enabled, on_gpu=torch.cuda.is_available())
    if lora.quantize != "none":
        config = models.make_quantization_config(lora.quantize)
        model = models.load_model(source, dtype=torch.bfloat16, quantization_config=config)
    elif dtype is torch.float32:
        model = models.load_in_float32(source)
    else:
        model = models.load_model(source, dtype=dtype)
    return Policy(model=model, tokenizer=load_training_tokenizer(source), source=source)


def load_training_tokenizer(source: str) -> Any:
    """A tokenizer that has an end token and a pad token.

    Raises:
        BadInputError: it cannot be read, or has no end token.
    """
    tokenizer = load_tokenizer(source)
    if tokenizer.eos_token is None:
        raise BadInputError(f"model {source}: its tokenizer has no eos_token; set one and save it")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def load_tokenizer(source: str) -> Any:
    """The tokenizer of a Hugging Face folder or hub id, unchanged.

    Raises:
        BadInputError: the tokenizer cannot be read.
    """
    return load_pretrained(AutoTokenizer.from_pretrained, source)


def save_policy(
    model: Any,
    folder: pathlib.Path,
    *,
    source: str,
    log: Sequence[Mapping[str, Any]],
    key: str,
    tokens: Tokens,
) -> Manifest:
    """Write ``model``, the tokenizer of ``source`` and ``log``; the manifest with ``tokens`` comes last.

    A model with an adapter is written merged, with the adapter in a subfolder: into the weights of
    ``source``, since a frozen base may be held in fewer bits.
    """
    counts = token_counts(tokens) | weight_counts(model)
    if (world := present_devices().world) > 1:
        counts["processes"] = world
    with replaced(folder) as fresh:
        if isinstance(model, PeftModel):
            adapters.save(model, fresh / adapters.FOLDER, base=source)
            model = models.load_merged(source, [fresh / adapters.FOLDER])
        models.save_model(model, fresh)
        load_tokenizer(source).save_pretrained(fresh)
        write_json_lines(fresh / LOG_NAME, log)
        manifest = manifests.seal(fresh, kind=KIND, key=key, counts=counts)
        write_record(fresh, (), start=source)
        return manifest


def token_counts(tokens: Tokens) -> dict[str, float]:
    """Token counts for a policy's manifest."""
    return {"trained_tokens": tokens.trained, "drawn_tokens": tokens.drawn}


def weight_counts(model: Any) -> dict[str, float]:
    """Counts of trained weights and of all weights for a policy's manifest, as PEFT counts them."""
    if isinstance(model, PeftModel):
        return dict(zip(WEIGHT_COUNTS, model.get_nb_trainable_parameters(), strict=True))
    return dict.fromkeys(WEIGHT_COUNTS, model.num_parameters())


def tokens_of(manifest: Manifest) -> Tokens:
    """Inverse of :func:`token_counts`."""
    counts = manifest.counts
    return Tokens(trained=int(counts["trained_tokens"]), drawn=int(counts["drawn_tokens"]))
