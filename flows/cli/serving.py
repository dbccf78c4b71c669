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
from pipeline_lib.engines.known.table import engine_named
from pipeline_lib.engines.running_engine import RunningEngine, serving_engine
from pipeline_lib.params.serve import ServeParams

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


def show_request(base_url: str, route: str, body: dict[str, Any]) -> None:
    """Print an example request."""
    sent = f"-H 'Content-Type: application/json' -d '{json.dumps(body)}'"
    say(f"\ncurl {base_url}/{route} {sent}\n")
