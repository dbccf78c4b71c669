"""A gateway in a thread, on a free port."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import httpx
import openai
from prometheus_client.parser import text_string_to_metric_families

from pipeline_lib.engines.client.client import OpenAIModel, ServerChat
from pipeline_lib.params.whole import Params
from pipeline_lib.params_file import load_params
from pipeline_lib.systems.pacore.gateway.server import run_gateway
from pipeline_lib.systems.pacore.worker_pool import WorkerPool
from tests.unit.engines.scripted_server import MODEL, ScriptedServer


class _StopError(Exception):
    """Ends the gateway."""


class Gateway:
    """The address of a running gateway, and its clients."""

    def __init__(self, port: int) -> None:
        self.root_url = f"http://127.0.0.1:{port}"
        self.base_url = f"{self.root_url}/v1"

    def client(self) -> openai.OpenAI:
        return openai.OpenAI(base_url=self.base_url, api_key="none", max_retries=0, timeout=60)

    def post(self, **body) -> httpx.Response:
        return httpx.post(f"{self.base_url}/chat/completions", json=body, timeout=60)

    def metric(self, name: str, **labels: str) -> float:
        text = httpx.get(f"{self.root_url}/metrics").raise_for_status().text
        samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
        [value] = [
            sample.value
            for sample in samples
            if sample.name == f"reasonloop_pacore_{name}"
            and labels.items() <= sample.labels.items()
        ]
        return value


@contextlib.contextmanager
def running_gateway(model: OpenAIModel | WorkerPool, params: Params) -> Iterator[Gateway]:
    """The gateway of an engine's client, or of workers."""
    started, stopping = threading.Event(), threading.Event()

    def follow() -> None:
        if stopping.is_set():
            raise _StopError

    def run() -> None:
        with contextlib.suppress(_StopError):
            run_gateway(model, params, listener, name=MODEL, on_start=started.set, follow=follow)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=run)
        thread.start()
        assert started.wait(60)
        try:
            yield Gateway(listener.getsockname()[1])
        finally:
            stopping.set()
            thread.join()


@contextlib.contextmanager
def gateway_of(
    server: ScriptedServer, *overrides: str, engine: str = "url", **serve
) -> Iterator[Gateway]:
    """The gateway of a scripted server that renders conversations by itself."""
    model = server.client(engine=engine, chat_format=ServerChat(), **serve)
    with running_gateway(model, load_params(overrides=list(overrides))) as gateway:
        yield gateway
