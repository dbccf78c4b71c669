"""A hundred bad adapter loads beside twenty good clients, in a separate process."""

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import psutil
import pytest

from tests.unit.engines.served_model import server_process
from tests.unit.engines.server import bad_adapters
from tests.unit.engines.server.random_adapters import random_adapter

LOADS = 100
CLIENTS = 20
STOP_S = 5
GROWTH_BYTES = 64 << 20
"""Memory that an allocator may keep; a hundred copies of the largest adapter would be 200 MB."""


@pytest.fixture
def storm_server(policy, tmp_path):
    """A server as `reasonloop serve` starts it: its process and its address."""
    options = ("--name", "m", "--max-rows", "32")
    with server_process(
        tmp_path / "log", "-m", "pipeline_lib.engines.server.server", policy, *options
    ) as started:
        yield started


def _ask(url: str, over: threading.Event) -> set[str]:
    """Responses to a good client until the storm ends."""
    body = {"model": "m", "prompt": "1,2=3", "temperature": 0, "max_tokens": 40}
    texts = set()
    with httpx.Client(timeout=120) as client:
        while not texts or not over.is_set():
            answer = client.post(f"{url}/completions", json=body).raise_for_status()
            texts.add(answer.json()["choices"][0]["text"])
    return texts


def _storm(url: str, paths: list[str]) -> list[int]:
    """The status of each load, eight at a time."""

    def load(number: int) -> int:
        asked = {"lora_name": f"bad-{number}", "lora_path": paths[number % len(paths)]}
        return httpx.post(f"{url}/load_lora_adapter", json=asked, timeout=120).status_code

    with ThreadPoolExecutor(8) as loaders:
        return list(loaders.map(load, range(LOADS)))


@pytest.mark.slow
def test_bad_loads_do_not_affect_clients(policy, storm_server, tmp_path):
    """No client gets an error, all bad loads are 400, memory does not grow, SIGTERM works within 5 s."""
    process, url = storm_server
    good = random_adapter(policy, tmp_path / "good", 1)
    folders = bad_adapters.refused_folders(good, tmp_path / "bad").values()
    paths = [*map(str, folders), *bad_adapters.PATHS]
    over = threading.Event()
    with ThreadPoolExecutor(CLIENTS) as clients:
        asking = [clients.submit(_ask, url, over) for _ in range(CLIENTS)]
        try:
            codes = _storm(url, paths)  # the first imports and allocates all that a load needs
            before = psutil.Process(process.pid).memory_info().rss
            codes += _storm(url, paths)
            grown = psutil.Process(process.pid).memory_info().rss - before
        finally:
            over.set()
        texts = set().union(*(one.result() for one in asking))
    assert codes == [400] * (2 * LOADS)
    assert len(texts) == 1
    assert grown < GROWTH_BYTES
    assert len(httpx.get(f"{url}/models").json()["data"]) == 1
    start = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0
    assert time.monotonic() - start < STOP_S
