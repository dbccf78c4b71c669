"""Atomic replacement of folders."""

import pathlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

_FRESH = ".fresh"


@contextmanager
def replaced(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yield an empty folder that replaces ``folder`` if the block ends without error."""
    fresh = folder.with_name(f".{folder.name}{_FRESH}")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    try:
        yield fresh
        shutil.rmtree(folder, ignore_errors=True)
        fresh.replace(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def is_unfinished(path: pathlib.Path) -> bool:
    """True for the name of a folder of :func:`replaced`, left by a killed process."""
    return path.name.startswith(".") and path.name.endswith(_FRESH)
