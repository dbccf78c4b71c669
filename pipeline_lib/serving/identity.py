"""Which model it is: a digest of all that its folder holds, without loading it."""

import functools
import pathlib

from pipeline_lib.storage.files import digest_file, digest_json
from pipeline_lib.storage.manifests import MANIFEST_NAME

# How a model was trained does not change what it says.
_NOT_THE_MODEL = {MANIFEST_NAME, "training_log.jsonl", "README.md"}


def model_identity(source: str) -> str:
    """Digest of weights, config, tokenizer and chat template; a hub id stands for itself."""
    folder = pathlib.Path(source)
    if not folder.is_dir():
        return source
    files = sorted(p for p in folder.iterdir() if p.is_file() and p.name not in _NOT_THE_MODEL)
    stats = ((path, path.stat()) for path in files)
    return _digest(tuple((path, stat.st_size, stat.st_mtime_ns) for path, stat in stats))


@functools.lru_cache(maxsize=8)
def _digest(files: tuple[tuple[pathlib.Path, int, int], ...]) -> str:
    """Of files that are told apart by size and time, so that weights are read once a process."""
    return digest_json({path.name: digest_file(path) for path, _, _ in files})[:16]
