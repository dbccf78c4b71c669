"""SGLang 0.5.23, in a virtual environment of its own (`make serve-env ENGINE=sglang`), on a GPU."""

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
from pipeline_lib.engines.model_config import dtype_options
from pipeline_lib.params.serve import ServeParams

_ENVIRONMENT = ".venv-sglang"


def _launch(serve: ServeParams, served: ServedModel) -> Launch:
    command = [
        *(environment_python(serve, _ENVIRONMENT), "-m", "sglang.launch_server"),
        *("--model-path", served.model, "--served-model-name", served.name),
        *("--host", HOST, "--port", str(served.port)),
        *dtype_options(served.model),
        # No sampling defaults from the model's generation_config.json, as for vLLM.
        *("--sampling-defaults", "openai"),
        # Without it, the seeds of requests are ignored (sampling/sampling_batch_info.py).
        "--enable-deterministic-inference",
        # Cached prompt tokens in the usage of each response, for the accounting.
        "--enable-cache-report",
        *("--log-level-http", "warning"),
    ]
    if served.lora_rank is not None:
        # Adapters come later, so their rank and target modules are declared at the start.
        command += ["--enable-lora", "--max-lora-rank", str(served.lora_rank)]
        command += ["--lora-target-modules", "all"]
        command += ["--max-loras-per-batch", str(RESIDENT_ADAPTERS)]
    # Log-probabilities as of before temperature (layers/sampler.py).
    original = {"SGLANG_RETURN_ORIGINAL_LOGPROB": "1"}
    changes = {**common_environment(serve, served), **FOREIGN_ENVIRONMENT, **original}
    return Launch(command=(*command, *serve.options), environment=changes)


SGLANG = Engine(
    name="sglang",
    environment=_ENVIRONMENT,
    compiles=True,
    launch=_launch,
    # Source: sglang, entrypoints/openai/serving_completions.py: all N completions get the same
    # sampling_seed; texts are tokenized with special tokens, ids are taken as they are.
    dialect=Dialect(
        fields={**NO_TRUNCATION, "return_token_ids": True},
        ids_only=True,
        logprobs=True,
        names_stops=True,
    ),
    # The base's name is ignored, and the adapter is what follows the colon.
    adapter_routes=AdapterRoutes(
        load="/load_lora_adapter",
        unload="/unload_lora_adapter",
        request_model="{base}:{adapter}",
    ),
    # Answered by the scheduler between two steps.
    health_route="/health_generate",
)
