"""Atomic, idempotent writing of data folders, shared by all builders."""

import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from pipeline_lib.store import manifests
from pipeline_lib.store.folders import check_output_folder, replaced
from pipeline_lib.store.keys import stage_key
from pipeline_lib.store.manifests import Manifest

KIND = "latent-data"
Counts = Mapping[str, float]
OnProgress = Callable[[int, int], None]
"""Called with the number of items done and the total."""


def build_folder(
    output: pathlib.Path,
    write: Callable[[pathlib.Path], Counts],
    *,
    module: str,
    options: Mapping[str, Any],
    inputs: Mapping[str, str],
) -> Manifest:
    """Fill a temporary folder with ``write``, seal it and move it to ``output``.

    A folder built by the same code with the same options and inputs is reused; one with another key
    is replaced.

    Args:
        output: the folder.
        write: fills the given folder and returns counts for the manifest.
        module: the module whose code is part of the key.
        options: plain values that determine the content.
        inputs: digest of each input by name.

    Raises:
        BadInputError: ``output`` holds other files or cannot be written.
    """
    check_output_folder(output, kind=KIND)
    key = stage_key(module, params=options, inputs=inputs)
    finished = manifests.current(output, kind=KIND, key=key)
    if finished is not None:
        return finished
    with replaced(output) as fresh:
        counts = write(fresh)
        return manifests.seal(fresh, kind=KIND, key=key, counts=counts)
