"""The embedded engine: transformers in this environment, in the worker's process or over HTTP.

Its server has vLLM's dialect and adapter routes.
"""

import sys

from pipeline_lib.engines.known.engine import Engine, Launch, ServedModel, common_environment
from pipeline_lib.engines.known.vllm import VLLM
from pipeline_lib.params.serve import ServeParams


def _launch(serve: ServeParams, served: ServedModel) -> Launch:
    command = (
        *(sys.executable, "-m", "pipeline_lib.engines.server.server"),
        *(served.model, "--name", served.name, "--port", str(served.port)),
    )
    return Launch(command=(*command, *serve.options), environment=common_environment(served))


EMBEDDED = Engine(
    name="embedded",
    launch=_launch,
    dialect=VLLM.dialect,
    adapter_routes=VLLM.adapter_routes,
    in_process=True,
)
