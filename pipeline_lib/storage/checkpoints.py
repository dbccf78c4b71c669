"""Checkpoints that can be trusted: sealed by digest, DONE marker last, the newest that verifies.

A trainer resumes from the newest folder it finds, even one that was half written when the process
was killed. Here a checkpoint counts only if its manifest, which is written last, fits its files
and was made for the same key.
"""

import pathlib
import shutil
from contextlib import suppress

from pipeline_lib.storage import manifests
from pipeline_lib.storage.files import write_text

KIND = "checkpoint"
DONE_NAME = "DONE"
_PREFIX = "checkpoint-"


def work_folder(output: pathlib.Path, key: str) -> pathlib.Path:
    """Where checkpoints for ``key`` stand: beside the output, which its stage may clear."""
    return output.with_name(f".{output.name}.work") / key[:16]


def discard(work: pathlib.Path) -> None:
    """Remove the work folder of a finished training; those of other keys can still be continued."""
    shutil.rmtree(work, ignore_errors=True)
    with suppress(OSError):  # not empty: another training has its checkpoints there
        work.parent.rmdir()


def seal(folder: pathlib.Path, *, key: str) -> None:
    """Digest the files of a finished checkpoint, then mark it as done."""
    (folder / DONE_NAME).unlink(missing_ok=True)
    manifests.seal(folder, kind=KIND, key=key)
    write_text(folder / DONE_NAME, "")


def newest(work: pathlib.Path, *, key: str) -> pathlib.Path | None:
    """The newest checkpoint under ``work`` that verifies, or None. Newer broken ones are removed.

    They must go: the trainer would count them as its own when it deletes old checkpoints.
    """
    for folder in sorted(work.glob(f"{_PREFIX}*"), key=_step, reverse=True):
        done = (folder / DONE_NAME).is_file()
        if done and manifests.current(folder, kind=KIND, key=key) is not None:
            return folder
        shutil.rmtree(folder)
    return None


def _step(folder: pathlib.Path) -> int:
    return int(folder.name.removeprefix(_PREFIX))
