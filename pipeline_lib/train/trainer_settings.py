"""Settings of the trainers of all methods: arguments, micro-batch sizes by memory, silenced libraries."""

import logging
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import datasets
import torch
import transformers
from transformers import TrainingArguments

from pipeline_lib.engines.tokens import encode_completion, encode_prompt


@contextmanager
def silence_libraries() -> Iterator[None]:
    """Suppress progress bars, logs and warnings below ERROR of the libraries while the block runs."""
    loggers = [logging.getLogger(name) for name in ("trl", "accelerate", "transformers", "peft")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    datasets.disable_progress_bars()
    transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


IGNORED = -100
"""The label of a token without a loss."""
_CPU_BYTES = 2 * 2**30
"""For activations on a CPU: a constant, so that the result does not depend on the machine's memory."""
_GPU_SHARE = 0.5
"""Share of a GPU's free memory for activations, beside gradients and moments."""
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
    return int(_GPU_SHARE * torch.cuda.mem_get_info()[0])


def _token_bytes(config: Any, *, checkpointing: bool) -> int:
    text = config.get_text_config()
    layers = int(text.num_hidden_layers)
    in_layers = layers + _FLOATS_PER_LAYER if checkpointing else layers * _FLOATS_PER_LAYER
    floats = in_layers * int(text.hidden_size) + _LOGIT_COPIES * int(text.vocab_size)
    return _FLOAT_BYTES * floats


def longest_row(rows: Iterable[Mapping[str, Any]], tokenizer: Any, *columns: str) -> int:
    """Tokens of the longest row: its ``prompt`` and the texts of ``columns``, with an end token."""
    return max(
        len(encode_prompt(tokenizer, row["prompt"]))
        + sum(len(encode_completion(tokenizer, row[column])) for column in columns)
        + 1
        for row in rows
    )


_Config = TypeVar("_Config", bound=TrainingArguments)


class TrainerSettings:
    """Arguments by their names in transformers; no mapping, so that no trainer unpacks them past `make`."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __or__(self, more: Mapping[str, Any]) -> "TrainerSettings":
        return TrainerSettings({**self._values, **more})

    @property
    def sequences(self) -> int:
        """Those of an optimizer step in this process."""
        micro: int = self["per_device_train_batch_size"]
        return micro * int(self["gradient_accumulation_steps"])

    def make(self, config: type[_Config], **more: Any) -> _Config:
        """A ``config`` of these arguments, changed by ``more``, for one GPU per process.

        Where several are visible, transformers would multiply the batch by their number, and TRL refuse.
        """
        args = config(**{**self._values, **more})
        if args.n_gpu > 1:
            args._n_gpu = 1  # noqa: SLF001 - the property has no setter
        return args
