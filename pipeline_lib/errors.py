"""Errors that a user can act on, each with the exit code of the command. Bugs are not wrapped."""

from typing import ClassVar

from pipeline_lib.terminal_text import one_line

_REASON_CHARACTERS = 300


class ReasonloopError(Exception):
    """Our own failure with a message for the user: what, where, remedy, in one line."""

    exit_code: ClassVar[int] = 1


class BadInputError(ReasonloopError):
    """Params, a file or an argument that cannot be used; raised before any compute."""

    exit_code: ClassVar[int] = 2


class CorruptArtifactError(BadInputError):
    """A file on disk is not what its manifest says it is."""


class DivergedError(BadInputError):
    """Params under which a training leaves the finite numbers, which only training can show."""


class BudgetReachedError(ReasonloopError):
    """The budget for drawing paths is used up; no fault, and the run continues once it is raised."""

    exit_code: ClassVar[int] = 3


class SandboxUnavailableError(ReasonloopError):
    """No sandbox tier passed its self-test, so model-written code is not run at all."""


def reason_of(error: BaseException) -> str:
    """What an error of another library says, as a part of one line; its type's name if that is nothing."""
    return one_line(str(error), most=_REASON_CHARACTERS) or type(error).__name__
