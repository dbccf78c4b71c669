"""Verified checkpoints: sealed by digest, with a DONE marker that is written last.

A trainer of transformers resumes from the newest folder, even from a partly written one. Here a
checkpoint is used only if its manifest matches its files and has the key of the training.
"""

import pathlib
import shutil
from contextlib import suppress

from pipeline_lib.store import manifests
from pipeline_lib.store.files import write_text

KIND = "checkpoint"
DONE_NAME = "DONE"
_PREFIX = "checkpoint-"
_WORK = ".work"


def work_folder(output: pathlib.Path, key: str) -> pathlib.Path:
    """Folder of the checkpoints for ``key``: next to the output, which the stage may clear."""
    return output.with_name(f".{output.name}{_WORK}") / key[:16]


def output_of(work: pathlib.Path) -> pathlib.Path | None:
    """The output whose work folders, one per key, are in ``work``; None if it is another folder."""
    if not work.name.startswith(".") or not work.name.endswith(_WORK):
        return None
    return work.with_name(work.name[1 : -len(_WORK)])


def discard(work: pathlib.Path) -> None:
    """Remove the work folder of a finished training; checkpoints under other keys are kept."""
    shutil.rmtree(work, ignore_errors=True)
    with suppress(OSError):  # not empty: another training has its checkpoints there
        work.parent.rmdir()


def seal(folder: pathlib.Path, *, key: str) -> None:
    """Write the manifest of a finished checkpoint, then its DONE marker."""
    (folder / DONE_NAME).unlink(missing_ok=True)
    manifests.seal(folder, kind=KIND, key=key)
    write_text(folder / DONE_NAME, "")


def newest(work: pathlib.Path, *, key: str) -> pathlib.Path | None:
    """The newest checkpoint under ``work`` that verifies, or None.

    Newer broken ones are removed, since the trainer counts them when it deletes old checkpoints.
    """
    for folder in sorted(
        work.glob(f"{_PREFIX}*"), key=lambda one: int(one.name.removeprefix(_PREFIX)), reverse=True
    ):
        done = (folder / DONE_NAME).is_file()
        if done and manifests.current(folder, kind=KIND, key=key) is not None:
            return folder
        shutil.rmtree(folder)
    return None
