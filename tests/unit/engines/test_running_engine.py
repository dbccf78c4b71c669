"""An external server is used, never managed."""

import pathlib
import subprocess
import sys
import time

import httpx
import pytest

from pipeline_lib.engines.launch.probes import lease_port
from pipeline_lib.engines.running_engine import serving_engine
from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.params.serve import ServeParams

SERVER = pathlib.Path(__file__).parent / "launch" / "small_server.py"


@pytest.fixture(scope="module")
def url():
    """Address of an external server, which serves the model "theirs"."""
    port, lease = lease_port(18700)
    command = [sys.executable, SERVER, "--served-model-name", "theirs", "--port", str(port)]
    server = subprocess.Popen(command)
    address = f"http://127.0.0.1:{port}/v1"
    while True:
        try:
            httpx.get(f"{address}/models", trust_env=False)
            break
        except httpx.TransportError:
            time.sleep(0.05)
    yield address
    server.kill()
    server.wait()
    lease.close()


def attached(url, tmp_path, **changes):
    serve = ServeParams(engine="url", url=url, start_timeout_s=60, **changes)
    return serving_engine(serve, model="not read", log_folder=tmp_path)


def test_the_only_model_is_taken(url, tmp_path):
    """With serve.model=null; its id is its identity, and the server runs on after the block."""
    with attached(url, tmp_path) as engine:
        assert engine.endpoint.base_url == url
        assert (engine.endpoint.model, engine.endpoint.identity) == ("theirs", "theirs")
    assert httpx.get(f"{url}/models", trust_env=False).is_success


def test_a_name_that_is_not_served(url, tmp_path):
    """The message lists the served models."""
    with (
        pytest.raises(
            BadInputError, match=r"serve\.model: .* does not serve other; it serves theirs"
        ),
        attached(url, tmp_path, model="other"),
    ):
        pass


def test_adapters_cannot_be_loaded(url, tmp_path):
    """The message names the remedy."""
    with (
        attached(url, tmp_path) as engine,
        pytest.raises(BadInputError, match=r"cannot be loaded at .*set serve\.model"),
    ):
        engine.load_adapter("policy", tmp_path, "1")


def test_an_unreachable_server(tmp_path, monkeypatch):
    """Port 9 of this machine has no server; the key of the environment is in no message."""
    monkeypatch.setenv("OPENAI_API_KEY", "models")
    with (
        pytest.raises(ReasonloopError, match=r"^serve\.url: http://127\.0\.0\.1:9/v1/\*\*\*: "),
        attached("http://127.0.0.1:9/v1", tmp_path),
    ):
        pass
