"""Calls of functions of a user, each with a deadline, in processes that may be killed."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

from pipeline_lib.errors import BadInputError
from pipeline_lib.killable.client import Forker, Lost, Worker
from pipeline_lib.killable.pool import Pool
from pipeline_lib.own import program
from pipeline_lib.own.code import Source
from pipeline_lib.own.wire import decoded, encoded
from pipeline_lib.params.paths import OwnLimits

_log = logging.getLogger(__name__)
_MOST_LINES = 1000
"""Of what the code prints, in the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of a function; a name that is no function gives its value."""

    function: str
    args: Sequence[Any] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    most: int | None = None
    """Items that are taken of an iterator, which may have no end; None: all."""
    shares: int = 1
    """Of the deadline, as for a function of several texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The value of a call, or why there is none."""

    value: Any = None
    failure: str | None = None
    lost: Lost | None = None
    """The failure is that its process was lost."""
    seconds: float = 0.0

    def checked(self, where: str) -> Any:
        """The value; BadInputError about ``where``: there is none."""
        if self.failure is not None:
            raise BadInputError(f"{where}: {self.failure}")
        return self.value

    def rows(self, where: str) -> list[Any]:
        """The items that are the value; BadInputError about ``where``: it is something else."""
        value = self.checked(where)
        if not isinstance(value, list):
            raise BadInputError(f"{where}: expected items, got {type(value).__name__}")
        return value


class OwnCode:
    """The functions of one source; a context manager. The code is imported at the first call.

    Raises:
        BadInputError: at the first call, the code cannot be imported.
    """

    def __init__(self, source: Source, limits: OwnLimits, *, workers: int = 1) -> None:
        self._lines = 0
        self._name = source.name
        self._forker = Forker(
            program.__name__,
            source.argument | {"memory_mb": limits.memory_mb},
            what=f"the processes of {source.file}",
            python=source.python,
            folder=None if source.given else source.file.parent,
            on_output=self._note,
        )
        self._pool = Pool(partial(_Caller, self._forker, limits), num_workers=workers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()
        self._forker.close()

    def call(self, calls: Sequence[Call]) -> list[Result]:
        """One result per call, in order."""
        return self._pool.judge(calls)

    def _note(self, line: str) -> None:
        self._lines += 1
        if self._lines <= _MOST_LINES:
            _log.info("%s: %s", self._name, line)


class _Caller:
    """A `killable.pool.Worker` for calls."""

    def __init__(self, forker: Forker, limits: OwnLimits) -> None:
        self._process, self._timeout_s = Worker(forker), limits.timeout_s

    def answer(self, call: Call) -> Result:
        """The result of a call."""
        asked = {name: getattr(call, name) for name in ("function", "args", "options", "most")}
        wall_s = self._timeout_s * call.shares
        data, seconds = self._process.ask(encoded(asked), wall_s=wall_s, cpu_s=wall_s)
        if isinstance(data, Lost):
            return Result(failure=data.value, lost=data, seconds=seconds)
        found = decoded(data)
        if found.pop("ends", False):
            self._process.close()
        return Result(seconds=seconds, **found)

    def close(self) -> None:
        """Kill its process."""
        self._process.close()
