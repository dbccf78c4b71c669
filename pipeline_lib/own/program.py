"""The program that imports code of a user, and whose workers call its functions.

Started as ``python -m pipeline_lib.own.program FD ARGUMENT``. The code is trusted: it has the network, the environment
and the folder of its file; what it prints goes to the pipe of the client.
"""

import asyncio
import functools
import importlib
import importlib.util
import inspect
import itertools
import json
import os
import pathlib
import resource
import socket
import sys
import traceback
from collections.abc import Iterator
from types import ModuleType

from pipeline_lib.killable.program import serve
from pipeline_lib.own.wire import decoded, encoded

_MAX_FAILURE_CHARS = 200
_forks = [0]


def main() -> None:
    """Serve the control socket whose descriptor is the first argument, with the source of the second."""
    control = socket.socket(fileno=int(sys.argv[1]))
    source = json.loads(sys.argv[2])
    file = pathlib.Path(source["file"])
    try:
        module = imported(file, source["module"])
        if source["given"]:
            module.warm(*source["given"])
    except BaseException as error:  # noqa: BLE001 - whatever the code raises, the client says it
        where = "".join(source["given"]) or f"{file.name}: cannot be imported"
        control.send(f"{where}: {_failure(error, file)}".encode())
        return
    os.register_at_fork(after_in_parent=_count_fork)
    memory_bytes = source["memory_mb"] << 20
    serve(
        control,
        functools.partial(_reply, module, file),
        # Beside what the module has mapped: torch alone takes gigabytes of addresses.
        memory_bytes=lambda: memory_bytes + _mapped_bytes(),
    )


def imported(file: pathlib.Path, name: str | None) -> ModuleType:
    """The module of a file, or the one of a name; whatever its code raises is raised."""
    if name is not None:
        return importlib.import_module(name)
    sys.path.insert(0, str(file.parent))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def _count_fork() -> None:
    _forks[0] += 1


def _mapped_bytes() -> int:
    pages = pathlib.Path("/proc/self/statm").read_text(encoding="ascii").split()[0]
    return int(pages) * resource.getpagesize()


def _reply(module: ModuleType, file: pathlib.Path, message: bytes) -> bytes:
    """The value of a call, or why there is none."""
    call, own_pid, forks = decoded(message), os.getpid(), _forks[0]
    try:
        value = getattr(module, call["function"])
        if callable(value):
            value = value(*call["args"], **call["options"])
        if inspect.iscoroutine(value):
            value = asyncio.run(value)
        if isinstance(value, Iterator):
            value = [*itertools.islice(value, call["most"])]
        reply = encoded({"value": value})
    except BaseException as error:  # noqa: BLE001 - an exit of the code must not end the worker
        reply = encoded({"failure": _failure(error, file)})
    if os.getpid() != own_pid:
        os._exit(0)
    if _forks[0] > forks:
        return encoded({"failure": "forked: it started a copy of its process", "ends": True})
    return reply


def _failure(error: BaseException, file: pathlib.Path) -> str:
    lines = [
        one.lineno for one in traceback.extract_tb(error.__traceback__) if one.filename == str(file)
    ]
    where = f" ({file.name}:{lines[-1]})" if lines else ""
    text = " ".join(str(error).split())[:_MAX_FAILURE_CHARS]
    return f"{type(error).__name__}: {text}{where}"


if __name__ == "__main__":
    main()
