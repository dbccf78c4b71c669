"""Access to environment variables; no other module reads them."""

import os
from collections.abc import Mapping


def environment(name: str) -> str | None:
    """The value of a variable, or None."""
    return os.environ.get(name)


def whole_environment() -> Mapping[str, str]:
    """All variables, for a process that has the same ones."""
    return os.environ
