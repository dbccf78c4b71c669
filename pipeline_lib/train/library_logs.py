"""Output of TRL, PEFT, transformers, accelerate and datasets, which would mix with the command's own."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import datasets
import transformers


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
