"""Supervision of vLLM itself, from the second environment (`make serve-env`)."""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import psutil
import pytest

from benchmarks.lib.repository import REPOSITORY
from pipeline_lib.engines.known.vllm import VLLM
from pipeline_lib.engines.launch.probes import (
    NoAnswerError,
    Probes,
    Watchdog,
    is_free,
    listening_pids,
)
from pipeline_lib.engines.running_engine import serving_engine
from pipeline_lib.params.serve import ServeParams
from tests.unit.engines.launch.real_engines import (
    PROMPTS,
    complete,
    greedy_ids,
    kill_while_sampling,
    metric,
    process_ids,
    send,
    swap_adapters,
)
from tests.waiting import until

ENVIRONMENT = REPOSITORY / ".venv-serve"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not (ENVIRONMENT / "bin" / "python").exists(), reason="no vLLM: make serve-env"
    ),
]
SERVE = ServeParams(
    engine="vllm",
    port=18900,
    environment=str(ENVIRONMENT),
    # Compilation would take most of the time of every start.
    options=("--dtype", "float32", "--max-num-seqs", "16", "--enforce-eager"),
)
START = """
import pathlib, sys, time
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.engines.running_engine import serving_engine
serve = ServeParams.model_validate_json(sys.argv[1])
with serving_engine(serve, model=sys.argv[2], log_folder=pathlib.Path(sys.argv[3])) as engine:
    print(*(child.pid for child in engine._process.processes), flush=True)
    time.sleep(600)
"""


@pytest.fixture(scope="module", autouse=True)
def small_cache():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
        yield


@pytest.fixture(scope="module")
def engine(llama, tmp_path_factory):
    """One engine for the tests of this file that do not end it."""
    logs = tmp_path_factory.mktemp("logs")
    with serving_engine(SERVE, model=str(llama), log_folder=logs, lora_rank=16) as running:
        yield running


def server_of(engine) -> int:
    """The HTTP server's process."""
    port = int(engine.endpoint.base_url[:-3].rpartition(":")[2])
    [server] = listening_pids(port)
    return server


def core_of(engine) -> list[int]:
    """The processes that compute: the server's children, and theirs, without multiprocessing's own."""
    children = psutil.Process(server_of(engine)).children(recursive=True)
    return [c.pid for c in children if not any("resource_tracker" in word for word in c.cmdline())]


def test_adapters_swap_while_it_runs(engine, adapters, greedy):
    """In float32, vLLM with an adapter equals transformers with the adapter merged."""
    swap_adapters(engine, adapters, greedy)


def test_a_disconnect_frees_the_request(engine):
    """64 completions of 480 tokens are requested and cancelled: they are not drawn to their end."""
    before = metric(engine.endpoint, "vllm:generation_tokens_total")

    def drawn() -> float:
        return metric(engine.endpoint, "vllm:generation_tokens_total") - before

    body = {
        "model": engine.endpoint.model,
        "prompt": PROMPTS[0],
        "n": 64,
        "max_tokens": 480,
        "ignore_eos": True,
    }
    with (
        pytest.raises(httpx.ReadTimeout),
        httpx.Client(timeout=0.3, trust_env=False) as client,
    ):
        client.post(f"{engine.endpoint.base_url}/completions", json=body)
    until(lambda: metric(engine.endpoint, "vllm:num_requests_running") == 0, timeout_s=30)
    assert drawn() < 64 * 480


def test_a_long_queue_is_not_a_hang(engine):
    """256 long completions, 16 at once: a new request gets no token in 3 s, but the counters move."""
    probes = Probes(base_url=engine.endpoint.base_url)
    watchdog = Watchdog(
        probes, engine.endpoint.model, health_route=VLLM.health_route, hang_timeout_s=3
    )
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(ask_for_long, engine.endpoint, prompt) for prompt in PROMPTS]
        until(lambda: metric(engine.endpoint, "vllm:num_requests_waiting") > 100, timeout_s=10)
        with pytest.raises(NoAnswerError):
            probes.draw_token(engine.endpoint.model, timeout_s=3)
        for _ in range(30):
            watchdog.poll()
            assert not watchdog.is_hung
            time.sleep(0.3)
        assert [future.result() for future in asked] == ["cancelled"] * 4


def ask_for_long(endpoint, prompt: str) -> str:
    body = {"model": endpoint.model, "prompt": prompt, "n": 64, "max_tokens": 480}
    try:
        httpx.post(
            f"{endpoint.base_url}/completions",
            json=body | {"ignore_eos": True},
            timeout=15,
            trust_env=False,
        )
    except httpx.ReadTimeout:
        return "cancelled"
    return "answered"


def test_a_hung_core_is_restarted_with_its_adapter(engine, adapters):
    """The core is stopped while its server still serves lists and metrics; detected within 30 s."""
    endpoint = engine.load_adapter("policy", adapters[0], "3")
    ids = greedy_ids(endpoint, tokens=16)
    restart_reasons = len(engine.restart_reasons)
    core = core_of(engine)
    assert len(core) >= 2
    send(signal.SIGSTOP, core)
    assert httpx.get(f"{endpoint.base_url}/models", trust_env=False).is_success
    until(lambda: len(engine.restart_reasons) > restart_reasons, timeout_s=SERVE.hang_timeout_s)
    assert engine.restart_reasons[-1].startswith("it hung")
    until(lambda: engine.restarts == len(engine.restart_reasons), timeout_s=30)
    # A swap waits for the restart; loading the same version again changes nothing.
    assert engine.load_adapter("policy", adapters[0], "3") == endpoint
    assert greedy_ids(endpoint, tokens=16) == ids


def test_a_server_killed_while_sampling_loses_no_path(engine):
    """The core and its worker would outlive the server; they are ended, and all are restarted."""
    old = process_ids(engine)
    kill_while_sampling(engine, SERVE, server_of(engine))
    assert not set(old) & set(process_ids(engine))


def test_nothing_is_left_and_a_port_in_use_gives_the_next(llama, tmp_path):
    """The first port has a listener. After the block: no process, socket or shared memory."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = listener.getsockname()[1]
        serve = SERVE.model_copy(update={"port": taken})
        with serving_engine(serve, model=str(llama), log_folder=tmp_path) as engine:
            pids = process_ids(engine)
            assert len(pids) >= 3  # the server, its core, a worker
            assert complete(engine.endpoint, PROMPTS[0], max_tokens=4).is_success
            environment = psutil.Process(server_of(engine)).environ()
            blocks = {
                mapped.path
                for pid in pids
                for mapped in psutil.Process(pid).memory_maps()
                if mapped.path.startswith("/dev/shm/")
            }
            port = int(engine.endpoint.base_url[:-3].rpartition(":")[2])
            assert port != taken
            assert blocks
    assert not [pid for pid in pids if psutil.pid_exists(pid)]
    assert not [block for block in blocks if pathlib.Path(block).exists()]
    assert not pathlib.Path(environment["TMPDIR"]).exists()
    assert is_free(port)


def test_no_process_outlives_the_one_that_started_it(llama, tmp_path):
    """After SIGKILL of the starter, its engine, core and worker end."""
    starter = subprocess.Popen(
        [sys.executable, "-c", START, SERVE.model_dump_json(), str(llama), str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    pids = [int(word) for word in starter.stdout.readline().split()]
    assert len(pids) >= 3
    starter.kill()
    starter.communicate()
    until(lambda: not [pid for pid in pids if psutil.pid_exists(pid)], timeout_s=20)
    assert os.getpid() not in pids
