"""Policies on disk: loaded for training, saved as plain Hugging Face folders.

A saved folder holds the weights with adapters merged in, the tokenizer, the training log and a manifest;
a trained adapter is in a subfolder.
"""

import pathlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from peft import PeftModel
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from pipeline_lib.errors import BadInputError, reason_of
from pipeline_lib.storage import manifests
from pipeline_lib.storage.files import write_json_lines
from pipeline_lib.storage.folders import replaced
from pipeline_lib.storage.manifests import Manifest
from pipeline_lib.training.token_budget import Tokens
from pipeline_lib.training.weights import adapters
from pipeline_lib.training.weights.quantization import make_four_bit_config

KIND = "model"
LOG_NAME = "training_log.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A model with its tokenizer, ready for training."""

    model: Any
    tokenizer: Any
    source: str
    """Folder or hub id that it was loaded from."""


def load_policy(source: str, *, four_bit: bool = False) -> Policy:
    """Load a Hugging Face folder or hub id: float32 on a CPU, bfloat16 on a GPU, or in 4 bits there.

    Raises:
        BadInputError: the model cannot be read, its tokenizer has no end token, or ``four_bit`` is set
            without CUDA or bitsandbytes.
    """
    model = load_model(
        source,
        dtype=torch.bfloat16 if torch.cuda.is_available() else torch.float32,
        **({"quantization_config": make_four_bit_config()} if four_bit else {}),
    )
    tokenizer = load_tokenizer(source)
    if tokenizer.eos_token is None:
        raise BadInputError(f"model {source}: its tokenizer has no eos_token; set one and save it")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return Policy(model=model, tokenizer=tokenizer, source=source)


def load_model(source: str, **options: Any) -> Any:
    """The model of a Hugging Face folder or hub id.

    Raises:
        BadInputError: the model cannot be read.
    """
    with _readable(source):
        return AutoModelForCausalLM.from_pretrained(source, trust_remote_code=False, **options)


def load_tokenizer(source: str) -> Any:
    """The tokenizer of a Hugging Face folder or hub id, unchanged.

    Raises:
        BadInputError: the tokenizer cannot be read.
    """
    with _readable(source):
        return AutoTokenizer.from_pretrained(source, trust_remote_code=False)


@contextmanager
def _readable(source: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # files from outside can fail in any way
        raise BadInputError(
            f"model {source}: {reason_of(error)}; give a Hugging Face folder or a reachable hub id"
        ) from error


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

    A model with an adapter is written merged, with the adapter in a subfolder. Weights have the precision
    of ``source``, if it is lower than that of ``model``.
    """
    with replaced(folder) as fresh:
        if isinstance(model, PeftModel):
            adapters.save(model, fresh / adapters.FOLDER, base=source)
        plain = _merge(model, fresh, source)
        plain.to(_saved_dtype(plain.dtype, source)).save_pretrained(fresh)
        load_tokenizer(source).save_pretrained(fresh)
        write_json_lines(fresh / LOG_NAME, log)
        return manifests.seal(fresh, kind=KIND, key=key, counts=token_counts(tokens))


def _saved_dtype(trained: torch.dtype, source: str) -> torch.dtype:
    """The precision of ``source`` if it is the lower one: its policies take no more room than itself."""
    with _readable(source):
        stored = AutoConfig.from_pretrained(source, trust_remote_code=False).dtype or trained
    return min(trained, stored, key=lambda dtype: dtype.itemsize)


def token_counts(tokens: Tokens) -> dict[str, float]:
    """Token counts for a policy's manifest."""
    return {"trained_tokens": tokens.trained, "drawn_tokens": tokens.drawn}


def tokens_of(manifest: Manifest) -> Tokens:
    """Inverse of :func:`token_counts`."""
    counts = manifest.counts
    return Tokens(trained=int(counts["trained_tokens"]), drawn=int(counts["drawn_tokens"]))


def _merge(model: Any, folder: pathlib.Path, source: str) -> Any:
    """The plain model. A base in 4 bits is loaded again in full precision, to drop its rounding."""
    if not isinstance(model, PeftModel):
        return model
    if not getattr(model, "is_loaded_in_4bit", False):
        return adapters.merge(model)
    base = load_model(source, dtype=torch.bfloat16)
    return adapters.merge(adapters.load(base, folder / adapters.FOLDER))
