"""An engine environment whose engine is the small server."""

import pathlib
import sys

SERVER = pathlib.Path(__file__).with_name("small_server.py")


def small_environment(folder: pathlib.Path) -> pathlib.Path:
    """Make the environment; it has every package, and its python starts the small server for any module."""
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(
        f'#!/bin/sh\n[ "$1" = -I ] && exit\nexec {sys.executable} {SERVER} "$@"\n', encoding="utf-8"
    )
    python.chmod(0o755)
    return folder
