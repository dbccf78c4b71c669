"""Access to environment variables; no other module reads them."""

import os


def environment(name: str) -> str | None:
    """The value of a variable, or None."""
    return os.environ.get(name)
