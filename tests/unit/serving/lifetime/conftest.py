"""A second environment whose engine is the small server, and params that use it."""

import pathlib
import sys
from collections.abc import Callable
from typing import Any

import pytest

from pipeline_lib.params import ServeParams

SERVER = pathlib.Path(__file__).with_name("small_server.py")


@pytest.fixture
def small(tmp_path: pathlib.Path) -> Callable[..., ServeParams]:
    """Params of an engine that starts in a tenth of a second; options make it fail."""
    python = tmp_path / "environment" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {SERVER} "$@"\n', encoding="utf-8")
    python.chmod(0o755)

    def params(*options: str, **changes: Any) -> ServeParams:
        fields = {
            "engine": "vllm",
            "port": 18300,
            "hang_timeout_s": 2.0,
            "start_timeout_s": 20.0,
        } | changes
        return ServeParams(environment=str(python.parents[1]), options=options, **fields)

    return params


@pytest.fixture
def model(tmp_path: pathlib.Path) -> str:
    """A folder that has an identity; the small server does not read it."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}", encoding="utf-8")
    return str(folder)
