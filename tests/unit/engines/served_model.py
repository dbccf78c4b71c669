"""The embedded engine's server, in a thread and on a free port."""

import pathlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from benchmarks.lib.repository import REPOSITORY
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.engines.server.routes import make_app
from tests.waiting import until

MODEL = "models/policy"


@contextmanager
def server_process(
    log: pathlib.Path, *command: str | pathlib.Path
) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """A server in a process of its own, and its base URL; it is killed at the end of the block."""
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [sys.executable, *command, "--port", "0"], cwd=REPOSITORY, stdout=sink, stderr=sink
        )
    try:
        until(lambda: "serving at " in log.read_text(), process=process)
        yield process, log.read_text().split("serving at ")[1].split()[0]
    finally:
        process.kill()
        process.wait()


@contextmanager
def served(folder: pathlib.Path, *, batch_size: int = 64, **options: Any) -> Iterator[str]:
    """The base URL of a server of the model in ``folder``, with `make_app`'s options."""
    own = EmbeddedEngine.load(str(folder), batch_size=batch_size)
    app = make_app(own, model_name=MODEL, **options)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        finally:
            server.should_exit = True
            thread.join()
