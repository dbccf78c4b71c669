"""Command lines and environments of the engines, as data."""

import itertools
import os
import pathlib
import subprocess
import sys

import pytest

from benchmarks.lib.repository import REPOSITORY
from pipeline_lib.engines.known.engine import Launch, ServedModel
from pipeline_lib.engines.known.table import ENGINES, engine_named
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.serve import ServeParams


@pytest.fixture
def environment(tmp_path: pathlib.Path) -> pathlib.Path:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    # Its answer to whether a package is there.
    python.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    python.chmod(0o755)
    return tmp_path


def launch_of(serve: ServeParams, served: ServedModel) -> Launch:
    """The launch of the engine that ``serve`` names."""
    launch = engine_named(serve.engine).launch
    assert launch is not None
    return launch(serve, served)


def options(command: tuple[str, ...]) -> dict[str, str]:
    """Each ``--option`` with the word after it."""
    return {a: b for a, b in itertools.pairwise((*command, "")) if a.startswith("--")}


def test_vllm(environment, monkeypatch):
    """Loopback only, sampling settings from requests alone, 4 GiB of cache, no hub for a folder."""
    monkeypatch.delenv("VLLM_CPU_KVCACHE_SPACE", raising=False)
    monkeypatch.setenv("PATH", "")
    serve = ServeParams(engine="vllm", environment=str(environment), options=("--dtype", "float32"))
    launch = launch_of(serve, ServedModel(model=str(environment), name="policy@1", port=8301))
    assert launch.command[:3] == (
        str(environment / "bin" / "python"),
        "-m",
        "vllm.entrypoints.openai.api_server",
    )
    assert options(launch.command) == {
        "--model": str(environment),
        "--served-model-name": "policy@1",
        "--host": "127.0.0.1",
        "--port": "8301",
        "--generation-config": "vllm",
        "--enable-prompt-tokens-details": "--disable-uvicorn-access-log",
        "--disable-uvicorn-access-log": "--allowed-origins",
        "--allowed-origins": "[]",
        "--middleware": "host_guard.HostGuard",
        "--no-enable-chunked-prefill": "--dtype",
        "--dtype": "float32",
    }
    assert launch.environment["VLLM_CPU_KVCACHE_SPACE"] == "4"
    assert launch.environment["HF_HUB_OFFLINE"] == "1"
    # Removed: they would break the other environment, or require a key of clients.
    removed = {name for name, value in launch.environment.items() if value is None}
    assert removed == {"VIRTUAL_ENV", "VLLM_API_KEY"}
    # In place of this environment's packages: a folder of middleware without dependencies.
    (folder,) = launch.environment["PYTHONPATH"].split(os.pathsep)
    code = "import sys, host_guard; assert host_guard.HostGuard(None); print('pipeline_lib' in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": folder},
        capture_output=True,
        text=True,
        cwd=folder,
        check=True,
    )
    assert found.stdout == "False\n"


def test_a_tool_of_the_driver_is_no_gpu(environment, tmp_path, monkeypatch):
    """On a CPU seeded requests crash chunked prefill: it is disabled unless a CUDA device is visible."""
    client = tmp_path / "nvidia-smi"
    client.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    serve = ServeParams(engine="vllm", environment=str(environment))
    launch = launch_of(serve, ServedModel(model="owner/name", name="name", port=1))
    assert "--no-enable-chunked-prefill" in launch.command


def test_the_cache_size_of_the_environment_is_kept(environment, monkeypatch):
    """vLLM's own variable overrides the default."""
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    serve = ServeParams(engine="vllm", environment=str(environment))
    launch = launch_of(serve, ServedModel(model="owner/name", name="name", port=1))
    assert launch.environment["VLLM_CPU_KVCACHE_SPACE"] == "1"
    assert "HF_HUB_OFFLINE" not in launch.environment  # a hub id must be fetched


@pytest.mark.parametrize(("wanted", "given"), [(1, "1"), (12, "16"), (16, "16"), (33, "64")])
def test_the_lora_rank_is_rounded_up_for_vllm(environment, wanted, given):
    """To the next rank that vLLM has kernels for."""
    serve = ServeParams(engine="vllm", environment=str(environment))
    launch = launch_of(serve, ServedModel(model="m", name="m", port=1, lora_rank=wanted))
    assert options(launch.command)["--max-lora-rank"] == given
    assert launch.environment["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] == "True"


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_policy_is_served_as_its_base_is(engine, environment, tmp_path):
    """Weights in float32 with a record are served in the recorded precision, unless the user names another."""
    (tmp_path / "config.json").write_text('{"dtype": "float32", "serving_dtype": "bfloat16"}')
    served = ServedModel(model=str(tmp_path), name="policy", port=8301)
    serve = ServeParams(engine=engine, environment=str(environment))
    assert options(launch_of(serve, served).command)["--dtype"] == "bfloat16"
    named = serve.model_copy(update={"options": ("--dtype", "float32")})
    assert options(launch_of(named, served).command)["--dtype"] == "float32"


def test_sglang(environment):
    """Seeds that count, log-probabilities before temperature, adapters loaded at run time, cached tokens."""
    serve = ServeParams(engine="sglang", environment=str(environment))
    launch = launch_of(serve, ServedModel(model="owner/name", name="name", port=8302, lora_rank=12))
    assert launch.command[1:3] == ("-m", "sglang.launch_server")
    assert options(launch.command) == {
        "--model-path": "owner/name",
        "--served-model-name": "name",
        "--host": "127.0.0.1",
        "--port": "8302",
        "--sampling-defaults": "openai",
        "--enable-deterministic-inference": "--enable-cache-report",
        "--enable-cache-report": "--log-level-http",
        "--log-level-http": "warning",
        "--enable-lora": "--max-lora-rank",
        "--max-lora-rank": "12",
        "--lora-target-modules": "all",
        "--max-loras-per-batch": "2",
    }
    assert launch.environment["SGLANG_RETURN_ORIGINAL_LOGPROB"] == "1"


def test_embedded_runs_in_this_environment():
    """This interpreter and the HTTP front, without a second environment."""
    serve = ServeParams(engine="embedded", environment="nowhere")
    launch = launch_of(serve, ServedModel(model="m", name="m@1", port=8303))
    assert launch.command == (
        *(sys.executable, "-m", "pipeline_lib.engines.server.server"),
        *("m", "--name", "m@1", "--port", "8303"),
    )


@pytest.mark.parametrize(("engine", "made"), [("vllm", ".venv-serve"), ("sglang", ".venv-sglang")])
def test_a_missing_environment_names_the_remedy(engine, made, tmp_path, monkeypatch):
    """One line, with the command that makes it; null is the folder that this command makes."""
    monkeypatch.chdir(tmp_path)
    for folder in (None, "none"):
        serve = ServeParams(engine=engine, environment=folder)
        with pytest.raises(BadInputError) as raised:
            launch_of(serve, ServedModel(model="m", name="m", port=1))
        assert str(raised.value) == (
            f"serve.environment={folder or made}: there is no {tmp_path / (folder or made)}/bin/python "
            f"with {engine}; `make serve-env ENGINE={engine}` installs it in {made}, or set a folder "
            "that has it"
        )


def test_the_makefile_installs_where_the_engines_look():
    """`make serve-env ENGINE=...` makes the folder of each engine from pins of its own."""
    made = {}
    for engine in ("vllm", "sglang"):
        command = [
            "make",
            "--dry-run",
            "--always-make",
            "serve-env",
            f"ENGINE={engine}",
            "DEVICE=cuda",
        ]
        lines = subprocess.run(
            command, cwd=REPOSITORY, capture_output=True, text=True, check=True
        ).stdout
        pins = next(word for word in lines.split() if word.startswith("requirements/"))
        assert f"{engine}==" in (REPOSITORY / pins).read_text("utf-8")
        made[engine] = lines.splitlines()[-1].split("/")[0].removeprefix("touch ")
    assert made == {name: ENGINES[name].environment for name in made}
