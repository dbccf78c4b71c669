"""A rollout engine as a value: launch, request dialect, LoRA routes, health route.

A new engine is a module with one `Engine` and its line in `table`. Nothing here starts a process or
imports torch: the command imports every engine to check params. `supervisor` runs what `launch`
describes.
"""

import pathlib
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pipeline_lib.engines.dialects import Dialect
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.serve import ServeParams

HOST = "127.0.0.1"
"""Engines listen on the loopback interface only."""
RESIDENT_ADAPTERS = 2
"""Adapters in memory: a new version is loaded before the old one is unloaded."""
INSTALL = "set serve.environment to a folder that has the engine (`make serve-env` makes one with vLLM alone)"
"""Remedy where an engine is not installed."""
FOREIGN_ENVIRONMENT: Mapping[str, str | None] = {"PYTHONPATH": None, "VIRTUAL_ENV": None}
"""For an engine in a second virtual environment, whose packages must not be shadowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """The model that an engine serves, and its port."""

    model: str
    """A Hugging Face folder or hub id."""
    name: str
    """The model's name in requests."""
    port: int
    lora_rank: int | None = None
    """Largest rank of an adapter; None: no adapters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A command line and its changes to the environment (None removes a variable)."""

    command: tuple[str, ...]
    environment: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterRoutes:
    """HTTP routes that load and unload LoRA adapters at run time."""

    load: str
    unload: str
    request_model: str
    """Model name of a request: a format with the names of ``base`` and ``adapter``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One kind of rollout engine."""

    name: str
    """The value of ``serve.engine``; part of every path's provenance."""
    launch: Callable[[ServeParams, ServedModel], Launch] | None
    """Raises BadInputError if the engine is not installed. None: a server that already runs at
    ``serve.url``; it keeps its own model and adapters, and its GPUs are not counted."""
    dialect: Dialect | None
    """None: looked up by the owner that the server's list of models gives."""
    adapter_routes: AdapterRoutes | None
    """None: adapters cannot be loaded at run time."""
    health_route: str | None = None
    """Answers 200 only while the engine computes, whatever its queue. None: one token is drawn."""
    package: str | None = None
    """The engine's package in ``serve.environment``; None: it needs no environment of its own."""
    in_process: bool = False
    """A run draws with the weights in each worker's own process; ``launch`` is for other clients."""

    @property
    def is_external(self) -> bool:
        """True if the server is neither started nor stopped here."""
        return self.launch is None


def common_environment(served: ServedModel) -> dict[str, str | None]:
    """Unbuffered logs, which survive a kill. No telemetry; offline for local models."""
    offline = {"HF_HUB_OFFLINE": "1"} if pathlib.Path(served.model).is_dir() else {}
    return {"PYTHONUNBUFFERED": "1", "DO_NOT_TRACK": "1", **offline}


def environment_python(serve: ServeParams) -> str:
    """The interpreter of the engine's virtual environment, relative to the current folder.

    Raises:
        BadInputError: there is none.
    """
    found = pathlib.Path.cwd() / serve.environment / "bin" / "python"
    if not found.exists():
        raise BadInputError(
            f"serve.environment={serve.environment}: there is no {found} with {serve.engine}; {INSTALL}"
        )
    return str(found)


def has_package(python: str, package: str) -> bool:
    """True if the environment of the interpreter ``python`` has a package, which is not imported."""
    find = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is None)"
    # Isolated: PYTHONPATH would show it the packages of this environment.
    command = [python, "-I", "-c", find]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0  # noqa: S603 - own words
