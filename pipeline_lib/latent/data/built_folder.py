"""What all builders of data folders share: a folder that is whole or absent, and made once."""

import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from pipeline_lib.errors import BadInputError
from pipeline_lib.stages.keys import stage_key
from pipeline_lib.storage import manifests
from pipeline_lib.storage.files import check_output
from pipeline_lib.storage.folders import replaced
from pipeline_lib.storage.manifests import MANIFEST_NAME, Manifest

KIND = "latent-data"
Counts = Mapping[str, float]
OnProgress = Callable[[int, int], None]
"""Called with what is done and the total."""


def build_folder(
    output: pathlib.Path,
    write: Callable[[pathlib.Path], Counts],
    *,
    module: str,
    options: Mapping[str, Any],
    inputs: Mapping[str, str],
) -> Manifest:
    """Let ``write`` fill a temporary folder, then seal it and put it at ``output``.

    A folder that was built before by the same code with the same options from the same inputs is
    taken up as it is. Any other one that a builder made is replaced.

    Args:
        output: the folder.
        write: fills the folder that it is given and says how much there is of what.
        module: the module that does the work.
        options: what decides the content.
        inputs: digests of what is read, by name.

    Raises:
        BadInputError: ``output`` holds something else or cannot be written.
    """
    check_output_folder(output, kind=KIND)
    key = stage_key(module, params=options, inputs=inputs)
    finished = manifests.current(output, kind=KIND, key=key)
    if finished is not None:
        return finished
    with replaced(output) as fresh:
        counts = write(fresh)
        return manifests.seal(fresh, kind=KIND, key=key, counts=counts)


def check_output_folder(output: pathlib.Path, *, kind: str) -> None:
    """Refuse a place where no folder can be made, and to replace what is not of ``kind``.

    Raises:
        BadInputError: the same in one line.
    """
    check_output(output / MANIFEST_NAME)
    if not output.is_dir() or not any(output.iterdir()):
        return
    if not (output / MANIFEST_NAME).is_file() or manifests.read_manifest(output).kind != kind:
        raise BadInputError(f"{output}: holds other files; choose another --output")
