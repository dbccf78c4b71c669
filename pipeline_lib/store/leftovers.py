"""Removal of what a killed process has left of its work: files and folders without their final name.

Only for the holder of the workspace's lease, before it works: nothing else writes these outputs then.
Checkpoints of an unfinished training are kept, since it resumes from them.
"""

import pathlib
import shutil
from collections.abc import Iterable

from pipeline_lib.errors import BadInputError
from pipeline_lib.store import checkpoints, manifests
from pipeline_lib.store.files import is_temporary
from pipeline_lib.store.folders import is_unfinished


def remove_leftovers(outputs: Iterable[pathlib.Path]) -> None:
    """Remove the leftovers of ``outputs``, beside and in them. An output may be missing.

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
