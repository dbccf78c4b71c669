"""Warm-up of the interpreter before its first fork.

A forked child copies every page that it writes to. After the warm-up, bytecode is specialized and
caches are filled, so children only read these pages.
"""

import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec

from pipeline_lib.verify.sandbox.examiner.examine import examine
from pipeline_lib.verify.sandbox.jail.candidate_process import MODULE, CandidateServer
from pipeline_lib.verify.sandbox.protocol.channel import Channel

_WARM_MODULES = """
array bisect cmath collections copy dataclasses datetime decimal enum fractions functools heapq io
itertools json math operator random re statistics string textwrap typing
"""
_ROUNDS = 40
"""Python 3.11 specializes an instruction after 8 executions, with a few back-offs."""
_PROGRAM = b"""
from typing import Any, Dict, List, Optional, Set, Tuple, Union
import math

def rehearsed(values: List[int], name: str = "", *, pairs: Optional[Dict[str, int]] = None) -> Any:
    kinds: Tuple[List[str], List[float], Tuple[int, int], Union[int, str]] = None
    seen = set(values)
    for index, value in enumerate(sorted(values)):
        if value % 2 == 0 and value not in (7, 8):
            seen.add(math.floor(value / 2) + index)
    return [str(value) for value in range(len(values)) if value], (len(seen), 2.5, None), name
"""
_TESTS = """
def check(candidate):
    assert candidate([]) == ([], (0, 2.5, None), "")
    assert candidate([1, 2, 3], "a") == (["1", "2"], (3, 2.5, None), "a"), "message"
    assert abs(candidate([4])[1][1] - 2.5) < 1e-6
"""


class _NumpyFinder:
    """Finds NumPy in a jail, where no folder with other packages is on the path."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name != "numpy":
            return None
        file, folders = f"{self._folder}/__init__.py", [self._folder]
        return importlib.util.spec_from_file_location(
            name, file, submodule_search_locations=folders
        )


def import_warm_modules(packages: Sequence[str]) -> None:
    """Import what most programs use, and let them import NumPy if its folder is among ``packages``.

    A process imports NumPy after its fork, so programs do not share what they change of it.
    """
    for name in _WARM_MODULES.split():
        importlib.import_module(name)
    # A thread of BLAS would be refused, and its memory counts.
    os.putenv("OPENBLAS_NUM_THREADS", "1")
    folders = [folder for folder in packages if folder.endswith("numpy")]
    sys.meta_path.extend(map(_NumpyFinder, folders))


class _Loopback(Channel):
    """A channel to a candidate in the same process."""

    def __init__(self, candidate: CandidateServer) -> None:
        self._candidate = candidate
        self._answer = b""

    def send(self, frame: bytes) -> None:  # type: ignore[explicit-override]
        self._answer = self._candidate.answer(frame)

    def receive(self) -> bytes:  # type: ignore[explicit-override]
        return self._answer


def warm_up() -> None:
    """Judge a sample program in this process, ``_ROUNDS`` times."""
    for _ in range(_ROUNDS):
        examine(_Loopback(CandidateServer(_PROGRAM)), entry_point="rehearsed", tests=_TESTS)
    del sys.modules[MODULE]
