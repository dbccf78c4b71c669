"""The embedded engine as an OpenAI-compatible HTTP server: ``python -m`` this module.

`reasonloop serve MODEL --engine embedded` starts it, as it starts the other engines. Prompts are
never logged.
"""

import argparse
import asyncio
import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

from pipeline_lib.engines.embedded.async_engine import AsyncEngine
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.engines.middleware.host_guard import Hosts
from pipeline_lib.engines.server.front import serve_app
from pipeline_lib.engines.server.routes import MAX_PENDING, make_app
from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.terminal_text import one_line

_STOP_S = 1
_EVERY_ADDRESS = {"0.0.0.0", "::", ""}  # noqa: S104 - compared, not bound


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; exit code 2 for bad input, 1 if the engine failed."""
    options = _parser().parse_args(arguments)
    try:
        with _bind(options.host, options.port) as listener:
            return _serve(options, listener)
    except (ReasonloopError, OSError) as error:
        sys.stderr.write(f"http_front: {one_line(str(error))}\n")
        return getattr(error, "exit_code", ReasonloopError.exit_code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="http_front", description=__doc__)
    parser.add_argument("model", help="a Hugging Face folder or hub id")
    parser.add_argument("--name", help="model name in requests; by default MODEL")
    parser.add_argument(
        "--host", default="127.0.0.1", help="default: this machine only; no authentication"
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a further accepted host name, besides localhost; may be repeated",
    )
    parser.add_argument("--port", type=int, default=8300, help="0: any free port")
    parser.add_argument("--max-rows", type=_count, default=64, help="completions decoded together")
    parser.add_argument(
        "--max-pending", type=_count, default=MAX_PENDING, help="completions running or waiting"
    )
    parser.add_argument("--threads", type=_count, default=1, help="CPU threads of torch")
    return parser


def _count(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text}; give at least 1")
    return number


def _bind(host: str, port: int) -> socket.socket:
    """A socket bound to the port before the model is loaded; uvicorn listens once it is ready."""
    listener = socket.socket()
    # Ports of servers that have just ended can be bound.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except (OSError, OverflowError) as error:
        listener.close()
        raise BadInputError(f"{host}:{port}: {error}; give another --port") from error
    return listener


def _serve(options: argparse.Namespace, listener: socket.socket) -> int:
    app = make_app(
        EmbeddedEngine.load(options.model, batch_size=options.max_rows),
        model_name=options.name or options.model,
        threads=options.threads,
        max_pending=options.max_pending,
        hosts=Hosts(
            names=frozenset(name.lower() for name in (options.host, *options.allow_host)),
            any_address=options.host in _EVERY_ADDRESS,
        ),
    )
    engine: AsyncEngine = app.state.engine
    # uvicorn raises the signal again after its shutdown; it must not end the process before the
    # engine's thread has ended.
    signalled = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: signalled.set())

    def announce() -> None:
        host, port = listener.getsockname()[:2]
        sys.stdout.write(f"serving at http://{host}:{port}/v1\n")
        sys.stdout.flush()

    def follow() -> None:
        if signalled.is_set() or engine.stopped is not None:
            raise _EndError

    with suppress(_EndError):
        asyncio.run(serve_app(app, listener, on_start=announce, follow=follow, on_stop=engine.stop))
    engine.join(_STOP_S)
    return 1 if engine.stopped is not None and engine.stopped.failed else 0


class _EndError(Exception):
    """Ends the server: a signal came before uvicorn could handle it, or the engine has failed."""


if __name__ == "__main__":
    exit_code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Interpreter shutdown takes seconds with torch, and would wait for a hung step.
    os._exit(exit_code)
