"""The context length that a model's folder declares."""

import pathlib

from pipeline_lib.storage.files import read_json


def declared_context(model: pathlib.Path) -> int | None:
    """Tokens of prompt and completion together; None for a hub id, or if the config declares none."""
    file = model / "config.json"
    found = read_json(file).get("max_position_embeddings") if file.is_file() else None
    return found if isinstance(found, int) else None
