"""Errors that a user can act on, with the exit code of the command. Bugs are not wrapped."""

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from pipeline_lib.terminal_text import one_line

if TYPE_CHECKING:
    from pydantic import ValidationError

_REASON_CHARACTERS = 300
_NAME_CHARACTERS = 100
_MOST_FAULTS = 20


class ReasonloopError(Exception):
    """Base class. The message is one line for the user: fault, place, remedy."""

    exit_code: ClassVar[int] = 1


class BadInputError(ReasonloopError):
    """Unusable params, file or argument; raised before any compute."""

    exit_code: ClassVar[int] = 2


@dataclass(frozen=True, slots=True)
class Faults:
    """The faults of a file's rows, which one error names together: the first 20."""

    _found: list[str] = field(default_factory=list)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the `BadInputError` of a row, so that the next ones are read, or of the file itself."""
        try:
            yield
        except BadInputError as error:
            if len(self._found) == _MOST_FAULTS:
                raise
            self._found.append(str(error))
            if len(self._found) == _MOST_FAULTS:
                self.raise_any()

    def raise_any(self) -> None:
        """Raise one error with all that were kept, if there are any."""
        if self._found:
            raise BadInputError(" | ".join(self._found))


class GivenUpError(ReasonloopError):
    """Something was lost as often as the params allow; a further attempt is for the user to make."""


class CorruptArtifactError(BadInputError):
    """A file on disk differs from its manifest."""


class DivergedError(BadInputError):
    """A training diverged to NaN or infinity under these params."""


class BudgetReachedError(ReasonloopError):
    """The sampling budget is used up; the run can be resumed with a higher one."""

    exit_code: ClassVar[int] = 3


class SandboxUnavailableError(ReasonloopError):
    """No sandbox tier passed its self-test, so no model-written code is run."""


@contextmanager
def errors_at(
    where: object, *others: type[Exception], fault: str = "", remedy: str = "", unnamed: str = ""
) -> Iterator[None]:
    """Put a place before a `BadInputError`, or before the first fault that pydantic found, as `first_fault` says it.

    Errors of ``others`` become one with ``fault``, the reason and ``remedy``.
    """
    from pydantic import ValidationError  # noqa: PLC0415 - a sandbox imports this module

    try:
        yield
    except BadInputError as error:
        raise BadInputError(f"{where}: {error}") from error
    except others as error:
        reason = f"{type(error).__name__}: {reason_of(error)}"
        found = f"{fault} ({reason})" if fault else reason
        raise BadInputError("; ".join(filter(None, (f"{where}: {found}", remedy)))) from error
    except ValidationError as error:
        raise BadInputError(f"{where}: {first_fault(error, unnamed=unnamed)}") from error


@contextmanager
def needs_extra(extra: str, what: str) -> Iterator[None]:
    """Name the extra of this package that ``what`` needs, where a module of it cannot be imported."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise BadInputError(
            f"{error.name} is not installed, and {what} needs it; run `pip install 'reasonloop[{extra}]'`"
        ) from error


def reason_of(error: BaseException) -> str:
    """The message of another library's error on one line, or the name of its type if it has none."""
    return one_line(str(error), most=_REASON_CHARACTERS) or type(error).__name__


def first_fault(error: "ValidationError", *, unnamed: str = "") -> str:
    """Key and message of the first fault that pydantic found; ``unnamed`` is the key of one without."""
    first = error.errors()[0]
    key = ".".join(map(str, first["loc"])) or unnamed
    fault = first["msg"].removeprefix("Value error, ")
    return f"{key}: {fault}" if key else fault


def suggestion(name: str, known: Iterable[str], *, prefix: str = "") -> str:
    """``"; did you mean 'x'?"`` with the known name that is most like ``name``; empty if none is."""
    close = difflib.get_close_matches(name[:_NAME_CHARACTERS].lower(), list(known), n=1)
    return f"; did you mean {prefix + close[0]!r}?" if close else ""
