"""vLLM, in a second virtual environment (`make serve-env`)."""

import pathlib

from pipeline_lib.engines import middleware
from pipeline_lib.engines.gpus import visible_gpus
from pipeline_lib.engines.known.engine import (
    FOREIGN_ENVIRONMENT,
    HOST,
    NO_TRUNCATION,
    RESIDENT_ADAPTERS,
    AdapterRoutes,
    Dialect,
    Engine,
    Launch,
    ServedModel,
    common_environment,
    environment_python,
)
from pipeline_lib.engines.middleware import host_guard
from pipeline_lib.engines.model_config import dtype_options
from pipeline_lib.params.environment import environment
from pipeline_lib.params.serve import ServeParams

_ENVIRONMENT = ".venv-serve"
# vLLM has kernels for these ranks only.
_LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
_CPU_KV_CACHE_GIB = "4"
# The folder holds middleware alone, so the packages of this environment stay invisible to vLLM's.
_MIDDLEWARE_FOLDER = pathlib.Path(middleware.__path__[0])
_HOST_GUARD = f"{host_guard.__name__.rpartition('.')[2]}.{host_guard.HostGuard.__name__}"


def _launch(serve: ServeParams, served: ServedModel) -> Launch:
    command = [
        # `vllm serve` looks for a distribution named vllm, which the build for CPUs is not.
        *(environment_python(serve, _ENVIRONMENT), "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", served.model, "--served-model-name", served.name),
        *("--host", HOST, "--port", str(served.port)),
        *dtype_options(served.model),
        # Without it, the model's generation_config.json sets top-k and penalties of its own.
        *("--generation-config", "vllm"),
        # Cached prompt tokens in the usage of each response, for the accounting.
        "--enable-prompt-tokens-details",
        "--disable-uvicorn-access-log",
        # Cross-origin reads and DNS rebinding from a browser on this machine are refused.
        *("--allowed-origins", "[]", "--middleware", _HOST_GUARD),
    ]
    if not visible_gpus():
        # Chunked prefill rewinds the random generator of a seeded request, which a CPU generator
        # does not support: "CPU Generator does not use offset" ends the whole engine (vLLM 0.32,
        # 64 requests of 160 tokens each).
        command.append("--no-enable-chunked-prefill")
    changes = {
        **common_environment(serve, served),
        **FOREIGN_ENVIRONMENT,
        "PYTHONPATH": str(_MIDDLEWARE_FOLDER),
        "VLLM_NO_USAGE_STATS": "1",
        # A key meant for another server would be required of the clients of this one.
        "VLLM_API_KEY": None,
        # On a CPU; vLLM's default is nearly all memory of the machine.
        "VLLM_CPU_KVCACHE_SPACE": environment("VLLM_CPU_KVCACHE_SPACE") or _CPU_KV_CACHE_GIB,
    }
    if served.lora_rank is not None:
        rank = next((r for r in _LORA_RANKS if r >= served.lora_rank), served.lora_rank)
        command += ["--enable-lora", "--max-lora-rank", str(rank)]
        command += ["--max-loras", str(RESIDENT_ADAPTERS)]
        changes["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "True"
    return Launch(command=(*command, *serve.options), environment=changes)


VLLM = Engine(
    name="vllm",
    environment=_ENVIRONMENT,
    compiles=True,
    launch=_launch,
    # Source: vllm 0.32, v1/engine/parallel_sampling.py: the seed of child i is seed + i. Greedy
    # requests with n > 1 are refused (sampling_params.py).
    dialect=Dialect(
        consecutive_seeds=True,
        fields={**NO_TRUNCATION, "add_special_tokens": False, "return_token_ids": True},
        logprobs=True,
        names_stops=True,
    ),
    adapter_routes=AdapterRoutes(
        load="/v1/load_lora_adapter",
        unload="/v1/unload_lora_adapter",
        request_model="{adapter}",
    ),
)
