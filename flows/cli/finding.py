"""A finding of `reasonloop doctor`, and what its checks share."""

import pathlib
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

COMMAND_TIMEOUT_S = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of output; ``ok`` is None for an optional part that is missing."""

    what: str
    ok: bool | None
    detail: str
    remedy: str = ""


def answer_of(command: Sequence[str]) -> str | None:
    """Standard output of a command, in one line, or None if it failed or hung."""
    try:
        done = subprocess.run(  # noqa: S603 - fixed commands
            command,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return "; ".join(done.stdout.split("\n")).strip("; ")


def existing_folder(workspace: pathlib.Path) -> pathlib.Path:
    """The workspace, or the nearest folder above it that exists."""
    return next(one for one in (workspace, *workspace.parents) if one.is_dir())
