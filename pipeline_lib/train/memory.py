"""Memory of a training: rows of a batch that fit at once, and what its end frees."""

import gc
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from pipeline_lib.engines.tokens import encode_completion, encode_prompt

_CPU_BYTES = 2 * 2**30
"""For activations on a CPU: a constant, so that the result does not depend on the machine's memory."""
_GPU_SHARE = 0.25
"""Share of a GPU's memory for activations, beside weights, gradients and moments."""
_FLOATS_PER_LAYER = 24
"""Values per channel, token and layer that a backward pass of a Llama block needs."""
_LOGIT_COPIES = 4
"""Logits, their gradient and temporaries of the loss."""
_FLOAT_BYTES = 4


def fitting_rows(
    config: Any, *, batch_size: int, row_tokens: int, checkpointing: bool = False
) -> int:
    """The largest divisor of ``batch_size`` whose rows fit into the memory for activations, at least 1.

    ``row_tokens`` are of the longest row, to which shorter ones are padded. With ``checkpointing`` activations
    inside of layers are computed again in the backward pass.
    """
    most = _memory_bytes() // (row_tokens * _token_bytes(config, checkpointing=checkpointing))
    fitting = (rows for rows in range(1, batch_size + 1) if batch_size % rows == 0 and rows <= most)
    return max(fitting, default=1)


def _memory_bytes() -> int:
    if not torch.cuda.is_available():
        return _CPU_BYTES
    return int(_GPU_SHARE * torch.cuda.get_device_properties(0).total_memory)


def _token_bytes(config: Any, *, checkpointing: bool) -> int:
    text = config.get_text_config()
    layers = int(text.num_hidden_layers)
    in_layers = layers + _FLOATS_PER_LAYER if checkpointing else layers * _FLOATS_PER_LAYER
    floats = in_layers * int(text.hidden_size) + _LOGIT_COPIES * int(text.vocab_size)
    return _FLOAT_BYTES * floats


def free_gpu_memory() -> None:
    """Return the memory of freed tensors to the GPU, for other processes."""
    if torch.cuda.is_available():
        gc.collect()
        torch.cuda.empty_cache()


def longest_row(rows: Iterable[Mapping[str, Any]], tokenizer: Any, *columns: str) -> int:
    """Tokens of the longest row: its ``prompt`` and the texts of ``columns``, with an end token."""
    return max(
        len(encode_prompt(tokenizer, row["prompt"]))
        + sum(len(encode_completion(tokenizer, row[column])) for column in columns)
        + 1
        for row in rows
    )
