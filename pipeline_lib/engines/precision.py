"""The precision in which a model is drawn, where it is not the precision of its weights.

A policy's weights are float32, so that small updates last. It is drawn in the precision of the model that it was
trained from, as base and control are; its config records that one.
"""

import pathlib

from pipeline_lib.store.files import read_json

RECORD = "serving_dtype"
"""The field of ``config.json``."""


def recorded_dtype(source: str) -> str | None:
    """The record of a folder; None for a model that is drawn as it is stored, and for a hub id."""
    path = pathlib.Path(source) / "config.json"
    config = read_json(path) if path.is_file() else None
    return config.get(RECORD) if isinstance(config, dict) else None


def dtype_options(source: str) -> tuple[str, ...]:
    """Options of a server, vLLM or SGLang, that draw the model of ``source`` as recorded."""
    found = recorded_dtype(source)
    return ("--dtype", found) if found else ()
