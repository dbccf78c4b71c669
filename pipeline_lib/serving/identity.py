"""Identity of a model: a digest of its folder's content, computed without loading it."""

import functools
import pathlib

from pipeline_lib.storage.files import digest_file, digest_json
from pipeline_lib.storage.manifests import MANIFEST_NAME

# Records of the training; they do not affect the model.
_IGNORED = {MANIFEST_NAME, "training_log.jsonl", "README.md"}


def model_identity(source: str) -> str:
    """Digest of weights, config, tokenizer and chat template; a hub id is returned as it is."""
    folder = pathlib.Path(source)
    if not folder.is_dir():
        return source
    files = sorted(p for p in folder.iterdir() if p.is_file() and p.name not in _IGNORED)
    stats = ((path, path.stat()) for path in files)
    return _digest(tuple((path, stat.st_size, stat.st_mtime_ns) for path, stat in stats))


@functools.lru_cache(maxsize=8)
def _digest(files: tuple[tuple[pathlib.Path, int, int], ...]) -> str:
    """Cached by size and modification time, so that weights are read once per process."""
    return digest_json({path.name: digest_file(path) for path, _, _ in files})[:16]
