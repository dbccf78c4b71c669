"""`reasonloop pacore serve`: an OpenAI-compatible gateway whose answers are drawn in rounds."""

import socket
from contextlib import ExitStack
from typing import Annotated

from cyclopts import Parameter

from flows.cli.options import (
    DEFAULT_RUN,
    PORT,
    EngineLogs,
    Model,
)
from flows.cli.pacore.cluster import (
    DEFAULT_ANSWER,
    DEFAULT_WORKERS,
    AnswerOptions,
    WorkerOptions,
    worker_pool,
)
from flows.cli.serving import QUESTION, exit_on_sigterm, reported_engine, show_request
from flows.run.terminal import say
from pipeline_lib.engines.client.client import OpenAIModel
from pipeline_lib.engines.known.engine import HOST
from pipeline_lib.engines.launch.probes import lease_port
from pipeline_lib.systems.pacore.gateway.requests import served_names
from pipeline_lib.systems.pacore.gateway.server import run_gateway
from pipeline_lib.systems.pacore.worker_pool import WorkerPool

_PORT = 8200


def serve(
    model: Model,
    /,
    *,
    port: Annotated[
        int, Parameter(help="First port to try; the next free one is used.", validator=PORT)
    ] = _PORT,
    workspace: EngineLogs = DEFAULT_RUN.workspace,
    workers: WorkerOptions = DEFAULT_WORKERS,
    params: AnswerOptions = DEFAULT_ANSWER,
) -> None:
    """Serve a model to any OpenAI client, on this machine only, with answers drawn in rounds.

    The name MODEL is one plain call; MODEL:low, MODEL:medium and MODEL:high are rounds of parallel
    paths before it. An engine that crashes or hangs is restarted. With --master the workers of a cluster draw, and
    a streamed answer comes in one piece.

    **Examples:**

        reasonloop pacore serve models/smollm2
        reasonloop pacore serve models/smollm2 --engine vllm --port 8200
        reasonloop pacore serve NAME --engine url --set serve.url=http://host:8000/v1
        reasonloop pacore serve models/smollm2 --master 127.0.0.1:6400
    """
    workers.check(engine=params.engine)
    loaded = params.load()
    exit_on_sigterm()
    log_folder = workspace.resolve() / "logs"
    # First, so that the engine takes another port.
    port, lease = lease_port(port)
    client: OpenAIModel | WorkerPool
    with ExitStack() as stack:
        stack.enter_context(lease)
        if workers.master is None:
            opening = reported_engine(model, loaded.serve, log_folder)
            running, follow = stack.enter_context(opening)
            # transformers, which takes seconds to import.
            from pipeline_lib.engines.started_engine import connect  # noqa: PLC0415

            client = connect(running.endpoint, loaded.serve, model=model)
        else:
            client, follow = stack.enter_context(worker_pool(model, loaded, workers)), _nothing
        listener = stack.enter_context(socket.create_server((HOST, port)))
        run_gateway(
            client,
            loaded,
            listener,
            name=model,
            on_start=lambda: _show(model, port),
            follow=follow,
        )


def _nothing() -> None:
    """Workers come and go without a message."""


def _show(model: str, port: int) -> None:
    """Print the address and an example."""
    base_url = f"http://{HOST}:{port}/v1"
    say(f"base URL: {base_url}")
    for name in served_names(model):
        say(f"model:    {name}")
    messages = [{"role": "user", "content": QUESTION}]
    show_request(base_url, "chat/completions", {"model": f"{model}:low", "messages": messages})
    say("serving; Ctrl-C stops it")
