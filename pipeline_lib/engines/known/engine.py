"""A rollout engine as a value: launch, request dialect, LoRA routes, health route.

A new engine is a module with one `Engine` and its line in `table`. Nothing here starts a process or
imports torch: the command imports every engine to check params. `launch.supervised` runs what `launch`
describes. Three differences between servers change what is drawn: the seeds of the N completions of one
request, special tokens added before a prompt, and sampling defaults from the model's folder.
"""

import pathlib
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.engines.gpus import visible_gpus
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.environment import environment
from pipeline_lib.params.serve import ServeParams

# In vLLM and SGLang a model's generation_config.json would set these; only top-p truncates here.
NO_TRUNCATION: Mapping[str, Any] = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """Request fields and seed semantics of one kind of server."""

    consecutive_seeds: bool = False
    """The N completions of a request with seed s have the seeds s, s + 1, ... Otherwise each
    completion is its own request: with one seed for N completions, a single one of them could not
    be drawn again."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Added to every request, beyond OpenAI's API."""
    ids_only: bool = False
    """A prompt must be token ids: the server adds special tokens to every text."""
    logprobs: bool = False
    """Log-probabilities are reported as of before temperature."""
    names_stops: bool = False
    """A completion that a stop string ended names it; elsewhere it looks like one that ended itself."""

    def split(self, seeds: Sequence[int], decoding: Decoding) -> Iterator[tuple[int, ...]]:
        """Split ``seeds`` into the seeds of one request each, in order."""
        run: tuple[int, ...] = ()
        for seed in seeds:
            joins = self.consecutive_seeds and decoding.temperature > 0
            if run and not (joins and seed == run[-1] + 1):
                yield run
                run = ()
            run = (*run, seed)
        if run:
            yield run

    def completion(
        self, prompt: str | Sequence[int], seeds: Sequence[int], decoding: Decoding
    ) -> dict[str, Any]:
        """Body of a request to ``/v1/completions`` for the seeds of one request, without the model."""
        body = {"prompt": prompt, **_sampling(seeds, decoding), "extra_body": dict(self.fields)}
        # 0: of the drawn tokens alone.
        return {**body, "logprobs": 0} if self.logprobs else body

    def chat(
        self, messages: Sequence[Any], seeds: Sequence[int], decoding: Decoding
    ) -> dict[str, Any]:
        """Body of a request to ``/v1/chat/completions``: the server renders the messages."""
        extra = {name: one for name, one in self.fields.items() if name != "add_special_tokens"}
        body = {"messages": messages, **_sampling(seeds, decoding), "extra_body": extra}
        return {**body, "logprobs": True} if self.logprobs else body


def _sampling(seeds: Sequence[int], decoding: Decoding) -> dict[str, Any]:
    stops = {"stop": list(decoding.stop)} if decoding.stop else {}
    return {
        "n": len(seeds),
        "seed": seeds[0],
        "max_tokens": decoding.max_new_tokens,
        "temperature": decoding.temperature,
        "top_p": decoding.top_p,
        **stops,
    }


_HANGING_S, _COMPILING_S = 30.0, 120.0
OPENAI = Dialect()
"""OpenAI's own fields alone, for any other server: some refuse unknown fields."""
DEVICES = "CUDA_VISIBLE_DEVICES"
HOST = "127.0.0.1"
"""Engines listen on the loopback interface only."""
RESIDENT_ADAPTERS = 2
"""Adapters in memory: a new version is loaded before the old one is unloaded."""
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
    environment: str | None = None
    """Folder of the virtual environment that `make serve-env` makes, with a package of the engine's name.
    None: it needs no environment of its own."""
    compiles: bool = False
    """On a GPU it compiles kernels at their first use, for which it draws no token for a minute or two."""
    in_process: bool = False
    """A run draws with the weights in each worker's own process; ``launch`` is for other clients."""

    def hang_timeout_s(self, serve: ServeParams) -> float:
        """Time without progress after which it is restarted."""
        if serve.hang_timeout_s is not None:
            return serve.hang_timeout_s
        return _COMPILING_S if self.compiles and visible_gpus() else _HANGING_S

    def num_gpus(self, serve: ServeParams) -> int:
        """GPUs of this machine that it computes with: one in a process of the run."""
        if self.is_external:
            return 0
        if self.in_process:
            return min(1, visible_gpus())
        return visible_gpus() if serve.gpus is None else len(serve.gpus)

    @property
    def is_external(self) -> bool:
        """True if the server is neither started nor stopped here."""
        return self.launch is None


def common_environment(serve: ServeParams, served: ServedModel) -> dict[str, str | None]:
    """Unbuffered logs, which survive a kill. No telemetry; offline for local models; the GPUs of the params.

    Raises:
        BadInputError: `serve.gpus` names a GPU that there is not.
    """
    offline = {"HF_HUB_OFFLINE": "1"} if pathlib.Path(served.model).is_dir() else {}
    own = {} if serve.gpus is None else {DEVICES: ",".join(_visible(serve.gpus))}
    return {"PYTHONUNBUFFERED": "1", "DO_NOT_TRACK": "1", **offline, **own}


def _visible(gpus: Sequence[int]) -> list[str]:
    """The names of GPUs of this process, by their numbers."""
    named = environment(DEVICES)
    there = named.split(",") if named else [str(number) for number in range(visible_gpus())]
    if missing := [number for number in gpus if number >= len(there)]:
        raise BadInputError(
            f"serve.gpus: there is no GPU {missing[0]}, of {len(there)}; give numbers from 0, or null for all"
        )
    return [there[number] for number in gpus]


def environment_python(serve: ServeParams, made: str) -> str:
    """The interpreter of ``serve.environment``, or of ``made``. BadInputError: the engine is not installed there."""
    folder = serve.environment or made
    found = pathlib.Path.cwd() / folder / "bin" / "python"
    if not (found.exists() and _has_package(str(found), serve.engine)):
        raise BadInputError(
            f"serve.environment={folder}: there is no {found} with {serve.engine}; `make serve-env "
            f"ENGINE={serve.engine}` installs it in {made}, or set a folder that has it"
        )
    return str(found)


def _has_package(python: str, package: str) -> bool:
    """True if the environment of the interpreter ``python`` has a package, which is not imported."""
    find = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is None)"
    # Isolated: PYTHONPATH would show it the packages of this environment.
    command = [python, "-I", "-c", find]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0  # noqa: S603 - own words
