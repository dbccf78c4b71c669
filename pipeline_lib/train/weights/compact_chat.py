"""A policy from scratch as a chat model, whose user messages are compact prompts."""

import pathlib
from collections.abc import Sequence

import torch

from pipeline_lib.engines.tokens import COMPACT_TEMPLATE
from pipeline_lib.problems.trained import write_record
from pipeline_lib.train.weights import models, policies

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
