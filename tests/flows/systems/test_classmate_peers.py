"""Classmates as real Ray actors: what kills, stops or starves one costs a call, and nothing is left running."""

import logging
import os
import pathlib
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
import ray
from ray._private.state import actors

from flows.ray.classmate_peers import opened_peers
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.classmate import PeerParams
from pipeline_lib.params.whole import ExecutionParams, ResourceParams, TaskResources
from pipeline_lib.systems.classmate.peer import Peer, PeerFailedError
from pipeline_lib.systems.classmate.peer_engine import BATCH_SIZE, PeerEngine
from pipeline_lib.telemetry import read_events
from tests.unit.engines.scripted_server import never, scripted_server
from tests.unit.systems.classmate.peer_models import (
    DECODING,
    QUESTIONS,
    answers,
    save_chat_peer,
    save_peer,
    served_at,
)
from tests.waiting import until

DEADLINE_S = 2.0
"""Of a call to a peer that hangs."""
GRACE_S = 10.0
REFUSED_S = 10.0
PATIENCE_S = 120.0
EXECUTION = ExecutionParams(runner="ray")
CPUS, GPUS = 4, 2
"""Declared to Ray; no GPU is used."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module", autouse=True)
def local_ray():
    """Ray on this machine, with the options of a run."""
    with pytest.MonkeyPatch.context() as patch:
        # Ray declares no GPU beyond those that are visible.
        patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        ray.init(
            namespace="reasonloop",
            num_cpus=CPUS,
            num_gpus=GPUS,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            runtime_env={"env_vars": {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1"}},
        )
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> list[pathlib.Path]:
    folder = tmp_path_factory.mktemp("models")
    return [save_peer(folder / "compact"), save_chat_peer(folder / "chat")]


@pytest.fixture(scope="module")
def server():
    with scripted_server() as found:
        yield found


@pytest.fixture(autouse=True)
def nothing_is_left(server):
    """No actor and none of its processes, and no resource that is held, after any test."""
    server.always = answers
    yield
    until(lambda: not actor_processes())
    until(lambda: free() == {"CPU": CPUS, "GPU": GPUS})


def free() -> dict[str, float]:
    found = ray.available_resources()
    return {name: found.get(name, 0) for name in ("CPU", "GPU")}


def actor_processes() -> list[psutil.Process]:
    return [one for one in psutil.Process().children(recursive=True) if is_actor(one)]


def is_actor(process: psutil.Process) -> bool:
    try:
        return "ClassmateActor" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:  # or a zombie
        return False


def process_of(peer: Peer) -> psutil.Process:
    return psutil.Process(ray.get(peer._actor.__ray_call__.remote(lambda _: os.getpid())))


def local(models, **more) -> list[PeerParams]:
    return [
        PeerParams(name=name, model=str(folder), **more)
        for name, folder in zip("ab", models, strict=True)
    ]


def opened(peers: Sequence[PeerParams], root, *, execution=EXECUTION, with_policy=False):
    """Peers beside a policy with GPUs of its own, or without one."""
    none = {"resources": ResourceParams(train=TaskResources(num_gpus=0))}
    return opened_peers(
        peers, execution if with_policy else execution.model_copy(update=none), root=root
    )


def texts(found) -> list[list[str]]:
    return [[one.text for one in answer] for answer in found]


def ask(peer: Peer, timeout_s: float = PATIENCE_S) -> list[list[str]] | str:
    """The texts, or the short reason of a failure; either comes in time."""
    began = time.monotonic()
    found: list[list[str]] | str
    try:
        found = texts(peer.answer(QUESTIONS, DECODING, timeout_s=timeout_s))
    except PeerFailedError as error:
        found = str(error)
    assert time.monotonic() - began < timeout_s + GRACE_S
    assert isinstance(found, list) or ("\n" not in found and len(found) < 400)
    return found


def ask_all(peers: Sequence[Peer], timeout_s: float = PATIENCE_S) -> list[object]:
    """At once, as `Peers` does."""
    with ThreadPoolExecutor(len(peers)) as pool:
        return list(pool.map(lambda peer: ask(peer, timeout_s), peers))


def test_killed_actors_come_back_with_the_same_texts(models, tmp_path):
    """One is killed, then both: the others answer, the reasons say so, and all are back for the next call.

    The texts are those of the body in a process of its own, before and after.
    """
    expected = [
        texts(
            PeerEngine(EmbeddedEngine.load(str(folder), batch_size=BATCH_SIZE)).answer(
                QUESTIONS, DECODING
            )
        )
        for folder in models
    ]
    with opened(local(models), tmp_path) as peers:
        assert ask_all(peers) == expected
        process_of(peers[0]).kill()
        failed, drawn = ask_all(peers)
        assert "its actor has died" in failed
        assert drawn == expected[1]
        assert ask_all(peers) == expected
        for peer in peers:
            process_of(peer).kill()
        assert all("its actor has died" in one for one in ask_all(peers))
        assert ask_all(peers) == expected


def test_a_killed_replica_costs_no_score(models, tmp_path):
    """Two actors of one model, of which either is killed: the same texts, and none is missing."""
    [peer, _] = local(models, replicas=2)
    with opened([peer], tmp_path) as [found]:
        replicas = [process_of(one) for one, _ in found._replicas]
        expected = ask(found)
        for process in replicas:
            process.kill()
            assert ask(found) == expected


def test_one_past_the_deadline(models, server, tmp_path):
    """A server that hangs, and an actor that is stopped: killed at the deadline, and back for the next call."""
    served = served_at(server, "served", tokenizer=models[0])
    with opened([*local(models)[:1], served], tmp_path) as [own, waiting]:
        server.always = never
        hung = process_of(waiting)
        drawn, failed = ask_all([own, waiting], DEADLINE_S)
        assert failed == "no answer within 2 s"
        assert isinstance(drawn, list)
        server.always = answers
        assert isinstance(ask(waiting), list)
        assert not hung.is_running()
        stopped = process_of(own)
        stopped.suspend()
        assert ask(own, DEADLINE_S) == "no answer within 2 s"
        assert ask(own) == drawn
        assert not stopped.is_running()


def test_one_that_cannot_load(models, tmp_path):
    """At the start one line and exit code 2. Later it fails each call, until its model is there again."""
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text("{}", encoding="utf-8")
    peers = [*local(models)[:1], PeerParams(name="c", model=str(broken))]
    with (
        pytest.raises(BadInputError, match=f"^classmate c: model {broken}: ") as raised,
        opened(peers, tmp_path),
    ):
        raise AssertionError
    assert "\n" not in str(raised.value)
    copy = save_peer(tmp_path / "copy")
    [peer] = [PeerParams(name="a", model=str(copy))]
    with opened([peer], tmp_path) as [found]:
        expected = ask(found)
        config = (copy / "config.json").rename(copy / "away")
        process_of(found).kill()
        assert "its actor has died" in ask(found)
        assert f"model {copy}: " in ask(found)
        config.rename(copy / "config.json")
        assert ask(found) == expected


def test_a_start_is_not_cut_short(models, tmp_path):
    """A call that comes while the actor starts fails, and the actor goes on starting: one more in all."""
    with opened(local(models)[:1], tmp_path) as [peer]:
        before = len(actors())
        process_of(peer).kill()
        ask(peer)
        assert "still starting" in ask(peer, 0.1)
        assert isinstance(ask(peer), list)
        assert len(actors()) == before + 1


@pytest.mark.parametrize(
    ("more", "with_policy", "wanted"),
    [
        ({"num_gpus": 1.5}, False, "3 GPUs and 0 CPUs of 2 classmates; it has 2 GPUs and 4 CPUs"),
        ({"num_cpus": 3.0}, False, "0 GPUs and 6 CPUs of 2 classmates; it has 2 GPUs and 4 CPUs"),
        ({"num_gpus": 1.0}, True, "1 GPUs of the policy and 2 GPUs and 0 CPUs of 2 classmates"),
    ],
)
def test_more_than_there_is(models, tmp_path, more, with_policy, wanted):
    """One line within 10 s, before an actor is made; a training takes a GPU as well."""
    refused(local(models, **more), tmp_path, with_policy=with_policy, message=wanted)


def test_what_is_in_use_elsewhere(models, tmp_path):
    """Two GPUs, of which another actor holds one: one line at the deadline of placement."""

    class Holder:
        def ready(self) -> None:
            return None

    holder = ray.remote(Holder).options(num_gpus=1, num_cpus=0).remote()
    ray.get(holder.ready.remote())
    message = r"within 10 s; free are 1 GPUs and 4 CPUs on all nodes together"
    refused(local(models, num_gpus=1.0), tmp_path, with_policy=False, message=message)
    ray.kill(holder)


def refused(peers, root, *, with_policy: bool, message: str) -> None:
    began = time.monotonic()
    with (
        pytest.raises(BadInputError, match=message) as raised,
        opened(peers, root, with_policy=with_policy),
    ):
        raise AssertionError
    assert time.monotonic() - began < REFUSED_S + 1.0
    assert "\n" not in str(raised.value)
    assert not actor_processes()


def test_policy_and_peers_have_gpus_of_their_own(models, tmp_path):
    """The policy has GPU 0 of two; two classmates of half a GPU share the other. A number of GPUs is kept."""

    def devices(peer: Peer) -> list[object]:
        return ray.get(peer._actor.__ray_call__.remote(lambda _: ray.get_gpu_ids()))

    with opened(local(models, num_gpus=0.5, num_cpus=1.0), tmp_path, with_policy=True) as peers:
        assert [devices(peer) for peer in peers] == [[1], [1]]
        assert free() == {"CPU": 2, "GPU": 0}
    none = ExecutionParams(resources=ResourceParams(train=TaskResources(num_gpus=0)))
    with opened(local(models, num_gpus=1.0), tmp_path, execution=none, with_policy=True) as peers:
        assert sorted(device for peer in peers for device in devices(peer)) == [0, 1]


def test_nothing_is_left_after_an_exception(models, server, tmp_path):
    """Also while a call is waited for, which fails."""
    calls = []

    def leave_while_asked(pool: ThreadPoolExecutor) -> None:
        served = served_at(server, "served", tokenizer=models[0])
        with opened([*local(models), served], tmp_path) as peers:
            server.always = never
            began = len(server.bodies)
            calls.append(pool.submit(ask, peers[-1]))
            until(lambda: len(server.bodies) > began)
            raise InterruptedError

    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(InterruptedError):
            leave_while_asked(pool)
        assert isinstance(calls[0].result(GRACE_S), str)


def test_a_note_about_servers(models, server, tmp_path):
    """Peers behind a server are named in the log of the run; peers with an engine of their own are not."""
    with opened([*local(models), served_at(server, "served", tokenizer=models[0])], tmp_path):
        pass
    [note] = [event["text"] for event in read_events(tmp_path) if event["event"] == "note"]
    assert note.startswith("classmates served (url): ")
