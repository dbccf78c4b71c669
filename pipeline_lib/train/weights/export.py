"""Exports as Hugging Face folders: a model with adapters merged into it, and a policy from scratch as a chat model."""

import pathlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from pipeline_lib.engines.model_config import RECORD
from pipeline_lib.engines.tokens import COMPACT_TEMPLATE
from pipeline_lib.errors import BadInputError
from pipeline_lib.problems.trained import write_record
from pipeline_lib.store.folders import replaced
from pipeline_lib.train.trainer_settings import silence_libraries
from pipeline_lib.train.weights import adapters, models, policies
from pipeline_lib.train.weights.policies import load_tokenizer

Dtype = Literal["float32", "bfloat16", "float16"]
_CARD = "README.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """Size and precision of the exported model."""

    num_weights: int
    dtype: str


def export_model(
    source: str,
    output: pathlib.Path,
    *,
    on_top: Sequence[pathlib.Path] = (),
    dtype: Dtype | None = None,
) -> Exported:
    """Write the model of ``source`` with the adapters ``on_top`` merged into it, in this order.

    Adapters are added in float32. The folder gets weights, config, tokenizer with chat template, and the
    model card if ``source`` has one.

    ``source`` is a Hugging Face folder or hub id. Without ``dtype`` weights get the precision in which
    ``source`` is drawn.

    Raises:
        BadInputError: ``output`` exists, or something cannot be read or does not fit.
    """
    if output.exists():
        raise BadInputError(f"{output}: exists; remove it or choose another --output")
    if on_top:
        adapters.check_base(on_top[0], source)
    with silence_libraries():
        model = models.load_merged(source, on_top)
        drawn = vars(model.config).pop(RECORD, None)
        name = dtype or drawn or "float32"
        model = model.to(getattr(torch, name))
        with replaced(output) as fresh:
            models.save_model(model, fresh)
            load_tokenizer(source).save_pretrained(fresh)
            write_record(fresh, (), start=source)
            card = pathlib.Path(source) / _CARD
            if card.is_file():
                shutil.copyfile(card, fresh / _CARD)
    return Exported(num_weights=model.num_parameters(), dtype=name)


TAGS: Sequence[str] = ("<think>", "</think>")


def write_compact_chat(source: str, folder: pathlib.Path) -> None:
    """Write the policy of ``source`` into ``folder``, with `COMPACT_TEMPLATE` and a token for each of `TAGS`.

    The embedding of a new token is the mean of all others. Up to rounding, prompts without these tokens have the
    same logits as before, but for the new tokens.

    Raises:
        BadInputError: the policy cannot be read.
    """
    policy = policies.load_policy(source)
    model, tokenizer = policy.model, policies.load_tokenizer(source)
    known = len(tokenizer)
    # Ordinary tokens: special ones would be missing in decoded text.
    tokenizer.add_tokens(list(TAGS), special_tokens=False)
    tokenizer.chat_template = COMPACT_TEMPLATE
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    with torch.no_grad():
        for embedding in {model.get_input_embeddings(), model.get_output_embeddings()}:
            embedding.weight[known:] = embedding.weight[:known].mean(dim=0)
    models.save_model(model, folder)
    tokenizer.save_pretrained(folder)
    write_record(folder, (), start=source)
