"""A crash and a hang are cured by a restart on the same port; a busy engine is left alone."""

import json
import os
import pathlib
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import psutil
import pytest

from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.serving.engines import serving_engine
from pipeline_lib.serving.lifetime import supervised
from pipeline_lib.serving.lifetime.ports import is_free, listening_processes
from pipeline_lib.serving.lifetime.process import EngineProcess


def until(condition, timeout_s=15.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def answers(endpoint) -> bool:
    """Whether the endpoint's model draws a token."""
    try:
        answer = httpx.post(
            f"{endpoint.base_url}/completions", json={"model": endpoint.model}, trust_env=False
        )
    except httpx.HTTPError:
        return False
    return answer.status_code == 200


@pytest.fixture
def opened(small, model, tmp_path):
    """Opens an engine on the small server with these options."""

    def make(*options: str, lora: bool = False, **changes):
        return serving_engine(
            small(*options, **changes), model=model, log_folder=tmp_path / "logs", lora=lora
        )

    return make


def adapter(folder: pathlib.Path, *, rank: int = 8, weights: str = "w") -> pathlib.Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps({"r": rank}), encoding="utf-8")
    (folder / "adapter_model.safetensors").write_text(weights, encoding="utf-8")
    return folder


def test_nothing_is_left_after_the_block(opened, tmp_path):
    """The port is free, all processes are gone, and the log of the engine's output stays."""
    with opened() as engine:
        assert answers(engine.endpoint)
        assert engine.endpoint.model == f"model@{engine.endpoint.identity}"
        pids = engine.process_ids
        assert pids
    assert engine.process_ids == []
    assert is_free(18300)
    assert engine.log == tmp_path / "logs" / f"vllm-{engine.endpoint.base_url[-8:-3]}.log"


def test_a_crash_is_answered_by_a_restart_on_the_same_port(opened):
    """The server is killed; the same endpoint answers again, with another process behind it."""
    with opened() as engine:
        [before] = engine.process_ids
        os.kill(before, signal.SIGKILL)
        until(lambda: engine.restarts == 1 and answers(engine.endpoint))
        [after] = engine.process_ids
        assert after != before
        assert engine.troubles[0].startswith("it was killed by signal 9")


def test_a_hung_engine_with_an_open_port_is_restarted(opened):
    """SIGSTOP: connections are still accepted, by the kernel, but nothing is answered."""
    with opened() as engine:
        [before] = engine.process_ids
        os.kill(before, signal.SIGSTOP)
        port = int(engine.endpoint.base_url[-8:-3])
        socket.create_connection(("127.0.0.1", port)).close()
        until(lambda: engine.restarts == 1 and answers(engine.endpoint))
        assert engine.process_ids != [before]
        assert engine.troubles == ("it hung: no token in 2 s (serve.hang_timeout_s)",)


def test_a_busy_engine_is_not_hung(opened):
    """No completion ever comes back, as behind an endless queue, but tokens are drawn."""
    with opened("--queue", hang_timeout_s=0.5) as engine:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(
                f"{engine.endpoint.base_url}/completions",
                json={"model": engine.endpoint.model},
                timeout=0.5,
                trust_env=False,
            )
        time.sleep(2.5)  # five hang timeouts
        engine.check()
        assert engine.restarts == 0


def test_a_server_whose_engine_stalls_is_restarted(opened):
    """Lists and counters are answered at once, but no token is drawn: that is a hang all the same."""
    with opened("--stall") as engine:
        assert httpx.get(f"{engine.endpoint.base_url}/models", trust_env=False).is_success
        until(lambda: engine.restarts == 1)
        assert engine.troubles == ("it hung: no token in 2 s (serve.hang_timeout_s)",)


def test_a_listed_model_is_not_enough(opened):
    """/v1/models answers at once, but no token can be drawn: such an engine never gets ready."""
    with (
        pytest.raises(ReasonloopError, match=r"does not work 1 s.*status 500.*core is dead"),
        opened("--no-core", start_timeout_s=1.0),
    ):
        pass
    assert is_free(18300)


def test_an_engine_that_cannot_start_says_why(opened, tmp_path):
    """One line: how it ended, its last words, and the file with all of them."""
    with pytest.raises(ReasonloopError) as caught, opened("--die"):
        pass
    [log] = (tmp_path / "logs").iterdir()
    assert str(caught.value) == (
        "vllm, before it answered, ended with exit code 1: "
        f"ValueError: this model cannot be served (all of it: {log})"
    )


@pytest.mark.parametrize("shared", [False, True])
def test_a_port_that_is_taken_during_the_start(opened, shared):
    """The engine that lost the race is started on another port.

    With SO_REUSEPORT, which vLLM sets, both could listen, and the stranger would get requests.
    """
    options = ("--bind-after", "1", *(["--share-port"] if shared else []))
    with ThreadPoolExecutor(1) as pool, ExitStack() as stack:
        stranger = pool.submit(take_from_engine, shared=shared)
        engine = stack.enter_context(opened(*options))
        with stranger.result() as listener:
            taken = listener.getsockname()[1]
            assert int(engine.endpoint.base_url[-8:-3]) > taken
            assert answers(engine.endpoint)
            assert listening_processes(taken) == {os.getpid()}


def take_from_engine(*, shared: bool) -> socket.socket:
    """Listen on the port of the first engine that this process starts, before it can."""
    found: list[int] = []

    def engine_waits() -> bool:
        for child in psutil.Process().children(recursive=True):
            words = child.cmdline()
            if "--bind-after" in words and "--port" in words:
                found.append(int(words[words.index("--port") + 1]))
        return bool(found)

    until(engine_waits)
    return socket.create_server(("127.0.0.1", found[0]), reuse_port=shared)


def given_up(engine) -> bool:
    try:
        engine.check()
    except ReasonloopError:
        return True
    return False


def test_it_is_given_up_after_some_restarts(opened, tmp_path):
    """Restarts fail, as the environment is gone; that is told, not what failed for want of it."""

    def run() -> None:
        with opened() as engine:
            (tmp_path / "environment" / "bin" / "python").unlink()
            os.kill(engine.process_ids[0], signal.SIGKILL)
            until(lambda: given_up(engine))
            raise RuntimeError("no answer")

    with pytest.raises(ReasonloopError, match=r"given up after 3 restarts: .*make serve-env"):
        run()
    assert is_free(18300)


def test_stop_during_a_restart(opened):
    """A block that ends while its engine is being started again leaves nothing behind."""
    with opened("--bind-after", "0.5") as engine:
        os.kill(engine.process_ids[0], signal.SIGKILL)
        until(lambda: engine.restarts == 1)
    assert engine.process_ids == []
    assert is_free(18300)


def test_a_new_version_replaces_the_old(opened, tmp_path):
    """The old version is refused from then on: 404, and never an answer of the new one."""
    with opened(lora=True) as engine:
        old = engine.load_adapter("policy", adapter(tmp_path / "a"), "1")
        assert (old.model, old.adapter) == ("policy@1", "policy@1")
        assert old.identity == engine.endpoint.identity
        new = engine.load_adapter("policy", adapter(tmp_path / "b"), "2")
        assert [answers(new), answers(old), answers(engine.endpoint)] == [True, False, True]


def test_adapters_under_the_names_of_sglang(opened, tmp_path):
    """Its requests name the base and, after a colon, the adapter; its routes have no version."""
    with opened(engine="sglang", lora=True) as engine:
        endpoint = engine.load_adapter("policy", adapter(tmp_path / "a"), "1")
        assert endpoint.model == f"{engine.endpoint.model}:policy@1"
        assert answers(endpoint)


def test_adapters_are_loaded_again_after_a_crash(opened, tmp_path):
    """The adapter's endpoint answers again without anybody's doing."""
    with opened(lora=True) as engine:
        endpoint = engine.load_adapter("policy", adapter(tmp_path / "a"), "1")
        os.kill(engine.process_ids[0], signal.SIGKILL)
        until(lambda: engine.restarts == 1 and answers(endpoint))


def test_an_adapter_that_changed_is_not_loaded_again(opened, tmp_path):
    """After a crash the folder holds other weights: they are not served under the old version."""
    folder = adapter(tmp_path / "a")

    def run() -> None:
        with opened(lora=True) as engine:
            engine.load_adapter("policy", folder, "1")
            adapter(folder, weights="v")
            os.utime(folder / "adapter_model.safetensors", ns=(1, 1))
            os.kill(engine.process_ids[0], signal.SIGKILL)
            until(lambda: given_up(engine))

    with pytest.raises(ReasonloopError, match=r"policy@1.*is not what it was"):
        run()


def test_a_swap_waits_for_an_engine_that_is_just_dying(opened, tmp_path):
    """The server is killed and a swap asked for at once: it is done after the restart."""
    with opened(lora=True) as engine:
        os.kill(engine.process_ids[0], signal.SIGKILL)
        endpoint = engine.load_adapter("policy", adapter(tmp_path / "a"), "1")
        assert engine.restarts == 1
        assert answers(endpoint)


def test_a_swap_is_set_free_from_an_engine_that_hangs(opened, tmp_path):
    """The order to load would wait for 200 s; the restart breaks it off, and it is repeated."""
    with opened("--stuck-once", str(tmp_path / "was"), lora=True, start_timeout_s=200) as engine:
        endpoint = engine.load_adapter("policy", adapter(tmp_path / "a"), "1")
        assert engine.troubles == ("it hung: no token in 2 s (serve.hang_timeout_s)",)
        assert answers(endpoint)


def test_adapters_that_cannot_be_served(opened, tmp_path):
    """Each is bad input, in one line, before the engine is asked."""
    with opened(lora=True) as engine:
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
    """It says that it was started without."""
    with opened() as engine, pytest.raises(BadInputError, match="base model alone"):
        engine.load_adapter("policy", adapter(tmp_path / "a"), "1")


def test_a_missing_folder_is_bad_input(small, tmp_path):
    """Nothing is started for a model that is not there."""
    with (
        pytest.raises(BadInputError, match="nowhere: no such folder"),
        serving_engine(small(), model=str(tmp_path / "nowhere"), log_folder=tmp_path / "logs"),
    ):
        pass
    assert not (tmp_path / "logs").exists()


def test_an_interrupted_start_leaves_nothing(opened, monkeypatch):
    """Ctrl-C while the engine loads: its processes are gone before the exception goes on."""
    started: list[EngineProcess] = []

    class Watched(EngineProcess):
        def __init__(self, *arguments) -> None:
            super().__init__(*arguments)
            started.append(self)

    monkeypatch.setattr(supervised, "EngineProcess", Watched)
    interrupt = threading.Timer(0.7, os.kill, (os.getpid(), signal.SIGINT))
    interrupt.start()
    with pytest.raises(KeyboardInterrupt), opened("--bind-after", "30"):
        pass
    assert len(started) == 1
    assert started[0].processes == []
