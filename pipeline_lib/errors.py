"""Errors that a user can act on, each with the exit code of the command. Bugs are not wrapped."""

from typing import ClassVar


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
