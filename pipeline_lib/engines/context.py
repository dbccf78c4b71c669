"""The context length of a model: what its config declares, less where a longer path would be another one."""

import pathlib
from collections.abc import Mapping
from typing import Any

from pipeline_lib.store.files import read_json

_GROWING = ("dynamic", "longrope", "su")
"""Beginnings of the rotary forms whose frequencies follow the longest row of a batch, beyond their original length.

Source: transformers 5.19, modeling_rope_utils.dynamic_rope_update; "su" is an older name of longrope."""


def declared_context(model: pathlib.Path) -> int | None:
    """As `context_of`; None for a hub id."""
    file = model / "config.json"
    return context_of(read_json(file)) if file.is_file() else None


def context_of(config: Mapping[str, Any]) -> int | None:
    """Tokens of prompt and completion together; None if the config declares none."""
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
