"""Which model is served: a digest of its folder's content, computed without loading it, and its address."""

import functools
import pathlib
from dataclasses import dataclass

from pipeline_lib.store.files import digest_file, digest_json
from pipeline_lib.store.manifests import MANIFEST_NAME

# Records of the training; they do not affect the model.
_IGNORED = {
    *(MANIFEST_NAME, "training_log.jsonl", "classmates.json", "trained_problems.json", "README.md")
}
_TEMPLATES = "additional_chat_templates"
"""Folder in which transformers keeps chat templates beside ``chat_template.jinja``."""


def model_identity(source: str) -> str:
    """Digest of weights, config, tokenizer and chat template; a hub id is returned as it is."""
    folder = pathlib.Path(source)
    if not folder.is_dir():
        return source
    own = (path for path in folder.iterdir() if path.name not in _IGNORED)
    files = sorted(p for p in (*own, *folder.glob(f"{_TEMPLATES}/*")) if p.is_file())
    stats = ((path, path.stat()) for path in files)
    return _digest(folder, tuple((path, stat.st_size, stat.st_mtime_ns) for path, stat in stats))


def is_path(model: str) -> bool:
    """True if ``model`` can only be a folder: a hub id is NAME or OWNER/NAME."""
    return model.startswith((".", "/", "~")) or model.count("/") > 1


@functools.lru_cache(maxsize=8)
def _digest(folder: pathlib.Path, files: tuple[tuple[pathlib.Path, int, int], ...]) -> str:
    """Cached by size and modification time, so that weights are read once per process."""
    return digest_json(
        {path.relative_to(folder).as_posix(): digest_file(path) for path, _, _ in files}
    )[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One served model. All fields are text, so it survives JSON."""

    engine: str
    """Name in `known.table`."""
    base_url: str
    """With the API version, as in ``http://127.0.0.1:8300/v1``."""
    model: str
    """Model name of requests; the adapter's, if there is one."""
    identity: str
    """Digest of the served weights (`identity.model_identity`); of an external server the model's id."""
    adapter: str | None = None
    """``name@version`` of the LoRA adapter, or None."""
