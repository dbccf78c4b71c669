"""The context length of a model, and the precision in which it is sampled, from its ``config.json``.

A policy's weights are float32, so that small updates last. It is drawn in the precision of the model that it was
trained from, as base and control are, which its config records.
"""

import pathlib
from collections.abc import Mapping
from typing import Any

from pipeline_lib.store.files import read_json

RECORD = "serving_dtype"
"""The field of ``config.json`` with the precision."""
_GROWING = ("dynamic", "longrope", "su")
"""Beginnings of the rotary forms whose frequencies follow the longest row of a batch, beyond their original length.

Source: transformers 5.19, modeling_rope_utils.dynamic_rope_update; "su" is an older name of longrope."""


def _config(source: str | pathlib.Path) -> Mapping[str, Any]:
    """The config of a folder; empty for a hub id."""
    path = pathlib.Path(source) / "config.json"
    found = read_json(path) if path.is_file() else None
    return found if isinstance(found, dict) else {}


def recorded_dtype(source: str) -> str | None:
    """The precision of a folder's record; None for a model that is drawn as it is stored, and for a hub id."""
    found: str | None = _config(source).get(RECORD)
    return found


def dtype_options(source: str) -> tuple[str, ...]:
    """Options of a server, vLLM or SGLang, that draw the model of ``source`` as recorded."""
    found = recorded_dtype(source)
    return ("--dtype", found) if found else ()


def declared_context(model: pathlib.Path) -> int | None:
    """As `context_of`; None for a hub id."""
    return context_of(_config(model))


def context_of(config: Mapping[str, Any]) -> int | None:
    """Tokens of prompt and completion together, less where a longer path would be another one; None: not declared."""
    found = config.get("max_position_embeddings")
    if not isinstance(found, int):
        return None
    return min(found, alike_tokens(config) or found)


def alike_tokens(config: Mapping[str, Any]) -> int | None:
    """Tokens up to which a path does not depend on what else is in its batch; None: any number."""
    rope: Any = config.get("rope_parameters") or config.get("rope_scaling") or {}
    name, default = "original_max_position_embeddings", config.get("max_position_embeddings", 0)
    originals: list[int] = [
        form.get(name) or config.get(name) or default
        for form in (rope, *rope.values())
        if isinstance(form, Mapping)
        and str(form.get("rope_type") or form.get("type")).startswith(_GROWING)
    ]
    return min(originals, default=None)
