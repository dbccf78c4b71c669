"""A CUDA device for a build of torch without CUDA, whose tensors lie in the memory of the CPU.

It shows devices that do not match, host syncs, dtypes, operations that strict deterministic mode refuses, and
what several visible GPUs change. It shows nothing of real kernels, memory or speed.

`start` comes before torch is imported, which looks for CUDA once. The operations are in `kernels`.
"""

import collections
import contextlib
import ctypes
import importlib.util
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

SYNCS: collections.Counter[str] = collections.Counter()
"""Waits of the host for the device, by the operation and the line of the project that causes it."""
STARTED: set[int] = set()
"""Devices whose generator was read, which starts CUDA there."""
VISIBLE = [1]
"""The number of visible devices."""
_libraries: list[Any] = []
_TORCH = "torch"


def build(folder: pathlib.Path, compiler: str) -> pathlib.Path:
    """Compile the device's C++ part; a few seconds."""
    library = folder / "simulated_cuda.so"
    torch_folder = _torch_folder()
    command = [
        *(compiler, "-shared", "-fPIC", "-O1", "-std=c++20", f"-I{torch_folder / 'include'}"),
        *(str(pathlib.Path(__file__).with_name("device.cpp")), f"-L{torch_folder / 'lib'}"),
        *("-lc10", "-ltorch_cpu", "-o", str(library)),
    ]
    subprocess.run(command, check=True)
    return library


def _torch_folder() -> pathlib.Path:
    found = importlib.util.find_spec(_TORCH)
    assert found is not None
    assert found.origin is not None
    return pathlib.Path(found.origin).parent


def start(library: str) -> None:
    """Give this process the device."""
    assert _TORCH not in sys.modules, "torch has already looked for CUDA"
    folder = _torch_folder() / "lib"
    paths = (folder / "libc10.so", folder / "libtorch_cpu.so", library)
    _libraries.extend(ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL) for path in paths)
    from tests.simulated_cuda import kernels, runtime  # noqa: PLC0415 - torch comes behind

    runtime.replace()
    _libraries.extend(kernels.register())


@contextlib.contextmanager
def visible(gpus: int) -> Iterator[None]:
    """So many GPUs are visible within the block; there is memory on the first one alone."""
    before, VISIBLE[0] = VISIBLE[0], gpus
    STARTED.clear()
    try:
        yield
    finally:
        VISIBLE[0] = before
