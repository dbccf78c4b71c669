"""Crashed and hung engines are restarted on the same port; busy ones are not."""

import json
import os
import pathlib
import re
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace

import httpx
import psutil
import pytest

from pipeline_lib.engines.known.vllm import VLLM
from pipeline_lib.engines.launch import supervised
from pipeline_lib.engines.launch.probes import is_free, listening_pids
from pipeline_lib.engines.launch.process import EngineProcess
from pipeline_lib.engines.running_engine import serving_engine
from pipeline_lib.errors import BadInputError, ReasonloopError
from tests.unit.engines.launch.real_engines import process_ids
from tests.waiting import until

HANG_S = 5.0
"""Hang timeout: long enough that a working engine is not taken for hung."""
HUNG = "it hung: no token in 5 s (serve.hang_timeout_s)"


def answers(endpoint) -> bool:
    """True if the endpoint's model draws a token."""
    try:
        answer = httpx.post(
            f"{endpoint.base_url}/completions",
            json={"model": endpoint.model},
            timeout=30,
            trust_env=False,
        )
    except httpx.HTTPError:
        return False
    return answer.status_code == 200


def polls_of(endpoint) -> int:
    """Number of reads of the small server's counters."""
    url = endpoint.base_url.removesuffix("/v1")
    return int(httpx.get(f"{url}/looks", timeout=30, trust_env=False).text)


@pytest.fixture
def opened(small, model, tmp_path):
    """Opens an engine on the small server with these options."""

    def make(*options: str, lora_rank: int | None = None, **changes):
        return serving_engine(
            small(*options, **changes),
            model=model,
            log_folder=tmp_path / "logs",
            lora_rank=lora_rank,
        )

    return make


def adapter(folder: pathlib.Path, *, rank: int = 8, weights: str = "w") -> pathlib.Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps({"r": rank}), encoding="utf-8")
    (folder / "adapter_model.safetensors").write_text(weights, encoding="utf-8")
    return folder


def test_nothing_is_left_after_the_block(opened, tmp_path):
    """The port is free, all processes have ended, and the log is kept."""
    with opened() as engine:
        assert answers(engine.endpoint)
        assert engine.endpoint.model == f"model@{engine.endpoint.identity}"
        pids = process_ids(engine)
        assert pids
    assert process_ids(engine) == []
    assert is_free(18300)
    assert engine.log == tmp_path / "logs" / f"vllm-{engine.endpoint.base_url[-8:-3]}.log"


def test_an_engine_without_adapter_routes(small, model, tmp_path):
    """Adapters are refused before the engine is started."""
    engine = replace(VLLM, adapter_routes=None)
    with pytest.raises(BadInputError, match=r"serve\.engine=vllm cannot load LoRA adapters"):
        supervised.start_supervised(
            engine, small(), model=model, lora_rank=8, log_folder=tmp_path / "logs"
        )
    assert not (tmp_path / "logs").exists()


@pytest.mark.fault("engine killed", "continues")
def test_a_crashed_engine_is_restarted_on_the_same_port(opened):
    """The server is killed; another process then serves the same endpoint."""
    with opened() as engine:
        [before] = process_ids(engine)
        os.kill(before, signal.SIGKILL)
        until(lambda: engine.restarts == 1 and answers(engine.endpoint))
        [after] = process_ids(engine)
        assert after != before
        assert engine.restart_reasons[0].startswith("it was killed by signal 9")


@pytest.mark.fault("engine hung", "continues")
def test_a_hung_engine_with_an_open_port_is_restarted(opened):
    """SIGSTOP: the kernel still accepts connections, but there is no response."""
    with opened(hang_timeout_s=HANG_S) as engine:
        [before] = process_ids(engine)
        os.kill(before, signal.SIGSTOP)
        port = int(engine.endpoint.base_url[-8:-3])
        socket.create_connection(("127.0.0.1", port)).close()
        until(lambda: engine.restarts == 1 and answers(engine.endpoint))
        assert process_ids(engine) != [before]
        assert engine.restart_reasons == (HUNG,)


def test_a_busy_engine_is_not_hung(opened):
    """No completion ends, as behind an endless queue, but tokens are drawn.

    A poll takes a tenth of the timeout, so the timeout has passed after 12 silent ones.
    """
    with opened("--queue", hang_timeout_s=HANG_S) as engine:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(
                f"{engine.endpoint.base_url}/completions",
                json={"model": engine.endpoint.model},
                timeout=0.5,
                trust_env=False,
            )
        until(lambda: polls_of(engine.endpoint) > 12)
        engine.check()
        assert engine.restarts == 0


def test_a_server_whose_engine_stalls_is_restarted(opened):
    """Lists and counters are served, but no token is drawn: a hang, too."""
    with opened("--stall", hang_timeout_s=HANG_S) as engine:
        assert httpx.get(f"{engine.endpoint.base_url}/models", trust_env=False).is_success
        until(lambda: engine.restarts == 1)
        assert engine.restart_reasons == (HUNG,)


def test_a_listed_model_is_not_enough(opened):
    """/v1/models is served, but no token can be drawn: the engine is never ready.

    On a slow machine the timeout may pass before it listens or answers: then a longer one is tried.
    """
    for timeout_s in (1.0, 10.0, 100.0):
        with (
            pytest.raises(ReasonloopError, match=f"does not work {timeout_s:g} s") as caught,
            opened("--no-core", start_timeout_s=timeout_s),
        ):
            pass
        assert is_free(18300)
        if re.search(r"status 500.*core is dead", str(caught.value)):
            return
    pytest.fail(str(caught.value))


def test_the_error_of_a_failed_start_has_the_reason(opened, tmp_path):
    """One line: the exit code, the end of the log, and the log file."""
    with pytest.raises(ReasonloopError) as caught, opened("--die"):
        pass
    [log] = (tmp_path / "logs").iterdir()
    assert str(caught.value) == (
        "vllm, before it answered, ended with exit code 1: "
        f"ValueError: this model cannot be served (all of it: {log})"
    )


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.fault("engine's port taken", "continues")
def test_a_port_that_is_taken_during_the_start(opened, tmp_path, shared):
    """The engine is started again on another port.

    With SO_REUSEPORT, which vLLM sets, both could listen, and the other one would get requests.
    """
    taken_file = tmp_path / "taken"
    options = ("--bind-once", str(taken_file), *(["--share-port"] if shared else []))
    with ThreadPoolExecutor(1) as pool, ExitStack() as stack:
        stranger = pool.submit(take_from_engine, taken_file, shared=shared)
        engine = stack.enter_context(opened(*options))
        with stranger.result() as listener:
            taken = listener.getsockname()[1]
            assert int(engine.endpoint.base_url[-8:-3]) > taken
            assert answers(engine.endpoint)
            assert listening_pids(taken) == {os.getpid()}


def take_from_engine(taken_file: pathlib.Path, *, shared: bool) -> socket.socket:
    """Listen on the port of the first engine that this process starts, before it can."""
    until(ports_awaited)
    listener = socket.create_server(("127.0.0.1", ports_awaited()[0]), reuse_port=shared)
    taken_file.touch()
    return listener


def ports_awaited() -> list[int]:
    """Ports of the small servers below this process that wait for a file."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            words = child.cmdline()
            # The subreaper's own command line holds the same words in one argument.
            if "--bind-once" in words and "--port" in words:
                found.append(int(words[words.index("--port") + 1]))
    return found


def given_up(engine) -> bool:
    try:
        engine.check()
    except ReasonloopError:
        return True
    return False


def test_an_engine_is_given_up_after_some_restarts(opened, tmp_path):
    """Restarts fail, as the environment was removed; the error names this cause."""

    def run() -> None:
        with opened() as engine:
            (tmp_path / "environment" / "bin" / "python").unlink()
            os.kill(process_ids(engine)[0], signal.SIGKILL)
            until(lambda: given_up(engine))
            raise RuntimeError("no answer")

    with pytest.raises(ReasonloopError, match=r"given up after 3 restarts: .*make serve-env"):
        run()
    assert is_free(18300)


def test_stop_during_a_restart(opened, tmp_path):
    """If the block ends during a restart, no process is left."""
    may_bind = tmp_path / "may-bind"
    may_bind.touch()
    with opened("--bind-once", str(may_bind)) as engine:
        may_bind.unlink()
        os.kill(process_ids(engine)[0], signal.SIGKILL)
        until(lambda: engine.restarts == 1 and ports_awaited())
    assert process_ids(engine) == []
    assert is_free(18300)


def test_a_new_version_replaces_the_old(opened, tmp_path):
    """Requests for the old version are 404, never served by the new one."""
    with opened(lora_rank=16) as engine:
        old = engine.load_adapter("policy", adapter(tmp_path / "a"), "1")
        assert (old.model, old.adapter) == ("policy@1", "policy@1")
        assert old.identity == engine.endpoint.identity
        new = engine.load_adapter("policy", adapter(tmp_path / "b"), "2")
        assert [answers(new), answers(old), answers(engine.endpoint)] == [True, False, True]


def test_adapters_under_the_names_of_sglang(opened, tmp_path):
    """Its requests name the base and, after a colon, the adapter; its routes have no version."""
    with opened(engine="sglang", lora_rank=16) as engine:
        endpoint = engine.load_adapter("policy", adapter(tmp_path / "a"), "1")
        assert endpoint.model == f"{engine.endpoint.model}:policy@1"
        assert answers(endpoint)


def test_adapters_are_loaded_again_after_a_crash(opened, tmp_path):
    """Requests to the adapter's endpoint work again."""
    with opened(lora_rank=16) as engine:
        endpoint = engine.load_adapter("policy", adapter(tmp_path / "a"), "1")
        os.kill(process_ids(engine)[0], signal.SIGKILL)
        until(lambda: engine.restarts == 1 and answers(endpoint))


def test_an_adapter_that_changed_is_not_loaded_again(opened, tmp_path):
    """If the folder's weights have changed at a restart, they are not served as the old version."""
    folder = adapter(tmp_path / "a")

    def run() -> None:
        with opened(lora_rank=16) as engine:
            engine.load_adapter("policy", folder, "1")
            adapter(folder, weights="v")
            os.utime(folder / "adapter_model.safetensors", ns=(1, 1))
            os.kill(process_ids(engine)[0], signal.SIGKILL)
            until(lambda: given_up(engine))

    with pytest.raises(ReasonloopError, match=r"policy@1.*has changed since"):
        run()


def test_a_swap_waits_for_the_restart_of_a_dying_engine(opened, tmp_path):
    """The server is killed and a swap requested at once: it is made after the restart."""
    with opened(lora_rank=16) as engine:
        os.kill(process_ids(engine)[0], signal.SIGKILL)
        endpoint = engine.load_adapter("policy", adapter(tmp_path / "a"), "1")
        assert engine.restarts == 1
        assert answers(endpoint)


def test_a_restart_ends_a_swap_that_waits_for_a_hung_engine(opened, tmp_path):
    """The load request would wait for 200 s; the restart breaks it, and it is repeated."""
    with opened(
        "--stuck-once",
        str(tmp_path / "was"),
        lora_rank=16,
        start_timeout_s=200,
        hang_timeout_s=HANG_S,
    ) as engine:
        endpoint = engine.load_adapter("policy", adapter(tmp_path / "a"), "1")
        assert engine.restart_reasons == (HUNG,)
        assert answers(endpoint)


def test_adapters_that_cannot_be_served(opened, tmp_path):
    """Each is bad input, in one line, before any request to the engine."""
    with opened(lora_rank=16) as engine:
        engine.load_adapter("policy", adapter(tmp_path / "a"), "1")
        for name, folder, message in (
            ("a:b", adapter(tmp_path / "a"), "only letters"),
            ("policy", tmp_path, r"no rank can be read from .*adapter_config\.json"),
            ("policy", adapter(tmp_path / "b", rank=64), "rank 64.*16 at most"),
            ("policy", adapter(tmp_path / "c", weights="other"), "policy@1 is loaded with other"),
        ):
            with pytest.raises(BadInputError, match=message):
                engine.load_adapter(name, folder, "1")


def test_an_engine_without_adapters_refuses_them(opened, tmp_path):
    """The message has the reason."""
    with opened() as engine, pytest.raises(BadInputError, match="base model alone"):
        engine.load_adapter("policy", adapter(tmp_path / "a"), "1")


def test_a_missing_folder_is_bad_input(small, tmp_path):
    """No engine is started."""
    with (
        pytest.raises(BadInputError, match="nowhere: no such folder"),
        serving_engine(small(), model=str(tmp_path / "nowhere"), log_folder=tmp_path / "logs"),
    ):
        pass
    assert not (tmp_path / "logs").exists()


def test_an_interrupted_start_leaves_nothing(opened, tmp_path, monkeypatch):
    """Ctrl-C while the engine loads: its processes end before the exception propagates."""
    started: list[EngineProcess] = []

    class Watched(EngineProcess):
        def __init__(self, *arguments) -> None:
            super().__init__(*arguments)
            started.append(self)

    monkeypatch.setattr(supervised, "EngineProcess", Watched)
    # A shell that starts the tests in the background makes them ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt() -> None:
        until(ports_awaited)
        os.kill(os.getpid(), signal.SIGINT)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    try:
        with pytest.raises(KeyboardInterrupt), opened("--bind-once", str(tmp_path / "never")):
            pass
        interrupter.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(started) == 1
    assert started[0].processes == []
