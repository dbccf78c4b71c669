"""The variables of the environment, which only this module reads."""

import os


def environment(name: str) -> str | None:
    """One variable, or None."""
    return os.environ.get(name)
