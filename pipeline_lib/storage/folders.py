"""Atomic replacement of folders."""

import pathlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def replaced(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yield an empty folder that replaces ``folder`` if the block ends without error."""
    fresh = folder.with_name(f".{folder.name}.fresh")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    try:
        yield fresh
        shutil.rmtree(folder, ignore_errors=True)
        fresh.replace(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
