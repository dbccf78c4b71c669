"""Import of NumPy in a jail, where no folder with other packages is on the path."""

import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec


class _Finder:
    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name != "numpy":
            return None
        # A thread of BLAS would be refused, and its memory counts.
        os.putenv("OPENBLAS_NUM_THREADS", "1")
        return importlib.util.spec_from_file_location(
            name, f"{self._folder}/__init__.py", submodule_search_locations=[self._folder]
        )


def permit_numpy(folders: Sequence[str]) -> None:
    """Find NumPy in one of its folders; without any, it is absent.

    A process imports it after its fork, so programs do not share what they change of it.
    """
    for folder in folders:
        if folder.endswith("numpy"):
            sys.meta_path.append(_Finder(folder))
