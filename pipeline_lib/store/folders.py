"""Folders of results: what may be written, atomic replacement, and removal of what a killed process has left."""

import pathlib
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pipeline_lib.errors import BadInputError
from pipeline_lib.store import checkpoints, manifests
from pipeline_lib.store.files import check_output, is_temporary
from pipeline_lib.store.manifests import MANIFEST_NAME, read_manifest

_FRESH = ".fresh"


def check_output_folder(output: pathlib.Path, *, kind: str) -> None:
    """Check that ``output`` can be written and holds nothing except a folder of ``kind``.

    Raises:
        BadInputError: it cannot be written, or holds other files.
    """
    check_output(output / MANIFEST_NAME)
    if not output.is_dir() or not any(output.iterdir()):
        return
    if not (output / MANIFEST_NAME).is_file() or read_manifest(output).kind != kind:
        raise BadInputError(f"{output}: holds other files; choose another --output")


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


def remove_leftovers(outputs: Iterable[pathlib.Path]) -> None:
    """Remove what a killed process has left without a final name, beside and in ``outputs``, of which some may be missing.

    Only for the holder of the workspace's lease, before it works: nothing else writes these outputs then. Checkpoints
    of an unfinished training are kept.

    Raises:
        OSError: one of them cannot be removed.
    """
    for output in outputs:
        beside = output.parent.glob(f".{output.name}.*")
        for path in [*beside, *output.rglob(".*")]:
            if is_temporary(path):
                path.unlink(missing_ok=True)
            elif is_unfinished(path):
                shutil.rmtree(path, ignore_errors=True)
            elif trained := checkpoints.output_of(path):
                _discard_work(trained)


def _discard_work(trained: pathlib.Path) -> None:
    """Remove the checkpoints of a result that is published, if the training was killed just then."""
    try:
        key = manifests.read_manifest(trained).key
    except BadInputError:  # not published
        return
    checkpoints.discard(checkpoints.work_folder(trained, key))
