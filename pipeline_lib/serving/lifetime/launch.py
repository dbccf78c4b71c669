"""How each engine is started: its command line and environment, as data.

Nothing is started here. The engines are other programs, most in an environment of their own; see
`process` for what runs them.
"""

import pathlib
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.environment import environment
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.params_file import REPOSITORY
from pipeline_lib.serving import middleware
from pipeline_lib.serving.lifetime.ports import HOST
from pipeline_lib.serving.middleware import host_guard

# The ranks that vLLM has kernels for.
_VLLM_LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
# The new version of an adapter is loaded before the old one goes.
_ADAPTERS_AT_ONCE = 2
_CPU_KV_CACHE_GIB = "4"
_GPU_CLIENT = "nvidia-smi"
# A folder of nothing but middleware, so that the other environment's packages are its own.
_GUARD_FOLDER = pathlib.Path(middleware.__path__[0])
_GUARD = f"{host_guard.__name__.rpartition('.')[2]}.{host_guard.HostGuard.__name__}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What an engine is to serve, and where."""

    model: str
    """A Hugging Face folder or hub id."""
    name: str
    """The name that requests carry."""
    port: int
    lora_rank: int | None = None
    """The largest rank of an adapter; None serves no adapters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A command, and what it changes in our environment (None takes a variable away)."""

    command: tuple[str, ...]
    environment: Mapping[str, str | None]


def launch_of(serve: ServeParams, served: Served) -> Launch:
    """The launch of ``serve.engine``.

    Raises:
        BadInputError: the engine's environment has not been made.
    """
    return _LAUNCHES[serve.engine](serve, served)


def _vllm(serve: ServeParams, served: Served) -> Launch:
    command = [
        # `vllm serve` looks for a distribution named vllm, which the build for CPUs is not.
        *(str(_python(serve)), "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", served.model, "--served-model-name", served.name),
        *("--host", HOST, "--port", str(served.port)),
        # Without it, the model's generation_config.json sets top-k and penalties of its own.
        *("--generation-config", "vllm"),
        # Cached tokens are part of every answer's usage, for the accounts.
        "--enable-prompt-tokens-details",
        "--disable-uvicorn-access-log",
        # Web pages must neither read what a browser on this machine gets, nor pose as this machine.
        *("--allowed-origins", "[]", "--middleware", _GUARD),
    ]
    if shutil.which(_GPU_CLIENT) is None:
        # A prompt that is computed in parts rewinds its path's random generator, which a CPU's
        # cannot: "CPU Generator does not use offset" ends the whole engine (vLLM 0.32). Seen with
        # 64 requests of 160 tokens each.
        command.append("--no-enable-chunked-prefill")
    changes = {
        **_quiet(served),
        **_FOREIGN,
        "PYTHONPATH": str(_GUARD_FOLDER),
        "VLLM_NO_USAGE_STATS": "1",
        # A key that is meant for another server would be asked of our own clients.
        "VLLM_API_KEY": None,
        # Where there is no GPU; by itself vLLM takes nearly all memory of the machine.
        "VLLM_CPU_KVCACHE_SPACE": environment("VLLM_CPU_KVCACHE_SPACE") or _CPU_KV_CACHE_GIB,
    }
    if served.lora_rank is not None:
        rank = next((r for r in _VLLM_LORA_RANKS if r >= served.lora_rank), served.lora_rank)
        command += ["--enable-lora", "--max-lora-rank", str(rank)]
        command += ["--max-loras", str(_ADAPTERS_AT_ONCE)]
        changes["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "True"
    return Launch(command=(*command, *serve.options), environment=changes)


def _sglang(serve: ServeParams, served: Served) -> Launch:
    command = [
        *(str(_python(serve)), "-m", "sglang.launch_server"),
        *("--model-path", served.model, "--served-model-name", served.name),
        *("--host", HOST, "--port", str(served.port)),
        # As for vLLM: no sampling settings from the model's folder.
        *("--sampling-defaults", "openai"),
        # Cached tokens are part of every answer's usage, for the accounts.
        "--enable-cache-report",
        *("--log-level-http", "warning"),
    ]
    if served.lora_rank is not None:
        # An adapter may come later, so its shape must be said at the start.
        command += ["--enable-lora", "--max-lora-rank", str(served.lora_rank)]
        command += ["--lora-target-modules", "all"]
        command += ["--max-loras-per-batch", str(_ADAPTERS_AT_ONCE)]
    changes = {**_quiet(served), **_FOREIGN}
    return Launch(command=(*command, *serve.options), environment=changes)


def _embedded(serve: ServeParams, served: Served) -> Launch:
    command = [
        *(sys.executable, "-m", "pipeline_lib.serving.http_front"),
        *(served.model, "--name", served.name, "--port", str(served.port)),
    ]
    return Launch(command=(*command, *serve.options), environment=_quiet(served))


# The path of our own packages must not shadow those of another environment.
_FOREIGN: Mapping[str, str | None] = {"PYTHONPATH": None, "VIRTUAL_ENV": None}


def _quiet(served: Served) -> dict[str, str | None]:
    """For every engine: a log line is in the file when its writer is killed, and nobody is called."""
    offline = {"HF_HUB_OFFLINE": "1"} if pathlib.Path(served.model).is_dir() else {}
    return {"PYTHONUNBUFFERED": "1", "DO_NOT_TRACK": "1", **offline}


def _python(serve: ServeParams) -> pathlib.Path:
    """The interpreter of the second environment; a relative folder is one of the repository."""
    found = REPOSITORY / serve.environment / "bin" / "python"
    if not found.exists():
        raise BadInputError(
            f"serve.environment={serve.environment}: there is no {found}; give the folder of an "
            f"environment with {serve.engine} (`make serve-env` makes one with vLLM)"
        )
    return found


_LAUNCHES: Mapping[str, Callable[[ServeParams, Served], Launch]] = {
    "vllm": _vllm,
    "sglang": _sglang,
    "embedded": _embedded,
}
