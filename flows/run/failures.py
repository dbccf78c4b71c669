"""Failures of the environment as one line: a full disk, a lost server, a lost cluster.

All other errors are bugs and end in a traceback.
"""

import errno
import functools
import pathlib
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from flows.run.terminal import complain
from pipeline_lib.errors import ReasonloopError, reason_of

INTERRUPTED = 130

_FULL = {errno.ENOSPC, errno.EDQUOT}
_BROKEN = {errno.EIO, errno.EROFS}
_FULL_WORDS = ("No space left on device", "Disk quota exceeded")
_TORCH_WRITER_WORDS = ("unexpected pos ", "PytorchStreamWriter failed")
"""Of torch.save to a path, which loses the system's message."""
RUN_AGAIN = "run the same command again: finished stages and shards are kept"


def failure_line(error: BaseException, *, root: pathlib.Path | None = None) -> str | None:
    """The line for ``error`` or its causes; None for a bug.

    Args:
        error: what ended the command or the flow.
        root: the workspace, which is named where a library's error names no file.
    """
    causes = list(_causes(error))
    return (
        _first(functools.partial(_disk_line, root=root), causes)
        or _first(_service_line, causes)
        or (reason_of(error) if isinstance(error, OSError) else None)
    )


@contextmanager
def errors_as_lines() -> Iterator[None]:
    """End the process with an exit code, and with one line for an error that a user can act on."""
    try:
        yield
    except ReasonloopError as error:
        complain(str(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:
        line = failure_line(error)
        if line is None:  # a bug
            raise
        complain(line)
        sys.exit(ReasonloopError.exit_code)


@contextmanager
def unwrapped_signals() -> Iterator[None]:
    """Raise what a signal handler raised in Ray's C code, as at SIGTERM, instead of the SystemError around it."""
    try:
        yield
    except SystemError as error:
        if error.__cause__ is None:
            raise
        raise error.__cause__ from None


def _first(
    line_of: Callable[[BaseException], str | None], causes: Iterable[BaseException]
) -> str | None:
    return next(filter(None, map(line_of, causes)), None)


def _disk_line(cause: BaseException, *, root: pathlib.Path | None) -> str | None:
    named = getattr(cause, "filename", None)
    if _is_full(cause):
        where = named or root or f"a file or the output ({reason_of(cause)})"
        return f"{where}: no space left; free some, then {RUN_AGAIN}"
    if isinstance(cause, OSError) and cause.errno in _BROKEN:
        place = "" if named or root is None else f"{root}: "
        return f"{place}{reason_of(cause)}; check the disk, then {RUN_AGAIN}"
    if isinstance(cause, RuntimeError) and any(w in str(cause) for w in _TORCH_WRITER_WORDS):
        where = root or f"a file of torch ({reason_of(cause)})"
        return f"{where}: no space left, or the disk fails; see to it, then {RUN_AGAIN}"
    return None


def _service_line(cause: BaseException) -> str | None:
    if _is_of(cause, "ray.") and not _is_of_a_worker(cause):
        return f"Ray has failed ({reason_of(cause)}); {RUN_AGAIN}"
    if _is_of(cause, "httpx", "httpcore"):
        said = f"{type(cause).__name__}: {reason_of(cause)}"
        return f"no answer from the Prefect server, or from an engine's ({said}); {RUN_AGAIN}"
    return None


def _is_of(error: BaseException, *packages: str) -> bool:
    """True if its class, or a base class, is defined in one of ``packages``."""
    return any(base.__module__.startswith(packages) for base in type(error).__mro__)


def _is_of_a_worker(error: BaseException) -> bool:
    """True if Ray only re-raises an error of a task."""
    return any(base.__name__ == "RayTaskError" for base in type(error).__mro__)


def _is_full(error: BaseException) -> bool:
    if isinstance(error, OSError) and error.errno in _FULL:
        return True
    # Writers in C++ and Rust raise other classes, with the system's message in the text.
    return any(words in str(error) for words in _FULL_WORDS)


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    pending = [error]
    while pending:
        one = pending.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        nested = one.exceptions if isinstance(one, BaseExceptionGroup) else ()
        pending += [cause for cause in (one.__cause__, one.__context__, *nested) if cause]
