"""All rollout engines, by the value of ``serve.engine``; those without an environment of their own stand here."""

import sys
from collections.abc import Mapping

from pipeline_lib.engines.known.engine import (
    OPENAI,
    Dialect,
    Engine,
    Launch,
    ServedModel,
    common_environment,
    environment_python,
)
from pipeline_lib.engines.known.sglang import SGLANG
from pipeline_lib.engines.known.vllm import VLLM
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.serve import ServeParams


def _launch(serve: ServeParams, served: ServedModel) -> Launch:
    command = (
        *(sys.executable, "-m", "pipeline_lib.engines.server.server"),
        *(served.model, "--name", served.name, "--port", str(served.port)),
    )
    return Launch(command=(*command, *serve.options), environment=common_environment(serve, served))


EMBEDDED = Engine(
    name="embedded",
    launch=_launch,
    dialect=VLLM.dialect,
    adapter_routes=VLLM.adapter_routes,
    in_process=True,
)
"""transformers in this environment, in the worker's process or over HTTP with vLLM's dialect and adapter routes."""
URL = Engine(name="url", launch=None, dialect=None, adapter_routes=None)
"""A server that already runs at ``serve.url``: used as it is, never started or stopped."""
ENGINES: Mapping[str, Engine] = {engine.name: engine for engine in (EMBEDDED, VLLM, SGLANG, URL)}


def engine_named(name: str) -> Engine:
    """The engine called ``name``. BadInputError: there is none."""
    if name not in ENGINES:
        *others, last = map(repr, ENGINES)
        choices = f"{', '.join(others)} or {last}"
        raise BadInputError(f"serve.engine: Input should be {choices} (got {name!r})")
    return ENGINES[name]


def check_engine(serve: ServeParams) -> None:
    """BadInputError unless ``serve`` names an engine and has what the engine needs."""
    if engine_named(serve.engine).is_external and not serve.url:
        raise BadInputError(
            f"serve: url=null; engine={serve.engine} needs the address, as in http://host:8000/v1"
        )


def check_installed(serve: ServeParams) -> None:
    """BadInputError unless the engine of ``serve`` can be started on this machine, or has an address."""
    check_engine(serve)
    if (made := engine_named(serve.engine).environment) is not None:
        environment_python(serve, made)


def is_in_process(name: str) -> bool:
    """True if the engine runs in the workers; False for a name that is not in the table."""
    return name in ENGINES and ENGINES[name].in_process


def dialect_of(engine: str, *, owned_by: str) -> Dialect:
    """The dialect of an engine; of an external server by the owner in its list of models."""
    known = engine_named(engine).dialect
    if known is None and owned_by in ENGINES:
        known = ENGINES[owned_by].dialect
    return known or OPENAI


def check_own_engine(serve: ServeParams, *, is_started: bool) -> None:
    """Check the engine of policies that are trained here; with ``is_started`` also that it is installed.

    BadInputError: it cannot be used, or is a running server.
    """
    (check_installed if is_started else check_engine)(serve)
    if engine_named(serve.engine).is_external:
        others = [name for name, engine in ENGINES.items() if not engine.is_external]
        raise BadInputError(
            f"serve.engine={serve.engine}: a run draws from policies that it trains, and "
            f"a running server has its own model; set one of {', '.join(others)} (`reasonloop "
            "sample` can use a running server)"
        )
