"""Policies on disk: loading one for training, saving one as a plain Hugging Face folder.

A saved folder holds whole weights (no adapters), the tokenizer, the log of its training and a
manifest.
"""

import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tokenizers import processors
from transformers import AutoModelForCausalLM, AutoTokenizer

from pipeline_lib.errors import BadInputError
from pipeline_lib.storage import manifests
from pipeline_lib.storage.files import write_json_lines
from pipeline_lib.storage.folders import replaced
from pipeline_lib.storage.manifests import Manifest

KIND = "model"
LOG_NAME = "training_log.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A model with its tokenizer, ready to be trained."""

    model: Any
    tokenizer: Any
    source: str
    """The folder or hub id that it was loaded from."""


def load_policy(source: str) -> Policy:
    """Load a Hugging Face folder or hub id: float32 on a CPU, bfloat16 on a GPU.

    Raises:
        BadInputError: there is no such model, it cannot be read, or it has no end-of-text token.
    """
    dtype = torch.bfloat16 if torch.cuda.is_available() else torch.float32
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(source, dtype=dtype)
        tokenizer = AutoTokenizer.from_pretrained(source)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise BadInputError(
            f"model {source}: {reason}; give a Hugging Face folder or a reachable hub id"
        ) from error
    if tokenizer.eos_token is None:
        raise BadInputError(f"model {source}: its tokenizer has no eos_token; set one and save it")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    _add_nothing(tokenizer)
    return Policy(model=model, tokenizer=tokenizer, source=source)


def _add_nothing(tokenizer: Any) -> None:
    """Make ``tokenizer(text)`` add no tokens of its own.

    A rendered prompt holds its special tokens already, and TRL tokenizes prompts with the default
    settings: a second begin-of-text token would make training differ from sampling.
    """
    if tokenizer("1")["input_ids"] != tokenizer("1", add_special_tokens=False)["input_ids"]:
        tokenizer.backend_tokenizer.post_processor = processors.Sequence([])


def save_policy(
    model: Any,
    folder: pathlib.Path,
    *,
    tokenizer_source: str,
    log: Sequence[Mapping[str, Any]],
    key: str,
) -> Manifest:
    """Write ``model``, the tokenizer of ``tokenizer_source`` and ``log``; the manifest comes last."""
    with replaced(folder) as fresh:
        model.save_pretrained(fresh)
        AutoTokenizer.from_pretrained(tokenizer_source).save_pretrained(fresh)
        write_json_lines(fresh / LOG_NAME, log)
        return manifests.seal(fresh, kind=KIND, key=key)
