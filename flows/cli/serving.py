"""Shared by commands that run long: exit on SIGTERM, an engine whose restarts are reported."""

import json
import pathlib
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from flows.run.terminal import say
from pipeline_lib.engines.known.table import check_installed, engine_named
from pipeline_lib.engines.running_engine import RunningEngine, attach, serving_engine
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.params.whole import Params

QUESTION = "What is 6 times 7?"


def exit_on_sigterm() -> None:
    """From now on SIGTERM leaves all blocks, and ends the process with code 143."""
    signal.signal(signal.SIGTERM, _terminate)


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    # A second SIGTERM would interrupt the shutdown of engines and flows.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + signal.SIGTERM)


@contextmanager
def reported_engine(
    model: str, serve: ServeParams, log_folder: pathlib.Path, *, lora_rank: int | None = None
) -> Iterator[tuple[RunningEngine, Callable[[], None]]]:
    """As `serving_engine`; also a function that prints new restarts, and raises once the engine is given up."""
    if engine_named(serve.engine).is_external:
        serve = serve.model_copy(update={"model": model})
    say(f"starting {serve.engine}; its output goes to {log_folder}")
    with serving_engine(serve, model=model, log_folder=log_folder, lora_rank=lora_rank) as running:
        shown: list[str] = []

        def report() -> None:
            running.check()
            for reason in running.restart_reasons[len(shown) :]:
                say(f"engine restarted: {reason}")
                shown.append(reason)

        yield running, report


def with_served_model(params: Params, model: str) -> tuple[str, Params]:
    """The name of a model and the params to draw from it; for a server at a URL with its name there.

    Args:
        params: of the command.
        model: a folder, a hub id, a name at ``serve.url``, or the URL of a server.

    Raises:
        BadInputError: the model is not served, or is not named while several are.
        ReasonloopError: the server does not answer.
    """
    at_url = {"engine": "url", "url": model} if is_url(model) else {}
    serve = params.serve.model_copy(update=at_url)
    if not engine_named(serve.engine).is_external:
        return model, params
    serve = serve.model_copy(update={"model": serve.model if at_url else model})
    check_installed(serve)
    name = attach(serve, by_chat=serve.tokenizer is None).endpoint.model
    return name, params.model_copy(update={"serve": serve.model_copy(update={"model": name})})


def is_url(model: str) -> bool:
    """True for the address of a server."""
    return model.startswith(("http://", "https://"))


def show_request(base_url: str, route: str, body: dict[str, Any]) -> None:
    """Print an example request."""
    sent = f"-H 'Content-Type: application/json' -d '{json.dumps(body)}'"
    say(f"\ncurl {base_url}/{route} {sent}\n")
