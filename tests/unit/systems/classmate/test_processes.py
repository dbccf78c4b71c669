"""Peers as real processes: what kills or stops one costs a call, and nothing is left running."""

import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from flows.ray.classmate_peers import opened_peers
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.classmate import ClassmateParams, PeerParams
from pipeline_lib.params.whole import ExecutionParams
from pipeline_lib.records import FinishReason
from pipeline_lib.systems.classmate.peer import PeerFailedError, Peers, Question
from pipeline_lib.systems.classmate.peer_engine import BATCH_SIZE, PeerEngine, check_peer
from pipeline_lib.systems.classmate.processes import process_peers
from tests.unit.engines.scripted_server import answers as replies
from tests.unit.engines.scripted_server import never, scripted_server
from tests.unit.systems.classmate.peer_models import (
    COUNTDOWN,
    DECODING,
    QUESTIONS,
    answers,
    served_at,
)

DEADLINE_S = 2.0
GRACE_S = 5.0
PATIENCE_S = 120.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def texts(found) -> list[list[str]]:
    return [[one.text for one in answer] for answer in found]


def processes() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


def all_computing() -> list[psutil.Process]:
    """The processes with engines: each the only child of a child."""
    return [one for child in psutil.Process().children() for one in child.children()]


def computing() -> psutil.Process:
    """The only process with an engine."""
    [found] = all_computing()
    return found


@pytest.fixture
def embedded(compact_peer, tmp_path):
    """A peer with an engine of its own."""
    peer = PeerParams(name="a", model=str(compact_peer))
    before = processes()
    with process_peers([check_peer(peer)], log_folder=tmp_path) as [opened]:
        yield opened
    assert processes() == before


@pytest.fixture
def server():
    with scripted_server() as found:
        found.always = answers
        yield found


@pytest.fixture
def served(server, compact_peer, tmp_path):
    """A peer at a scripted server."""
    peer = served_at(server, "a", tokenizer=compact_peer)
    with process_peers([check_peer(peer)], log_folder=tmp_path) as [opened]:
        yield opened


def failure(peer, *, timeout_s: float = DEADLINE_S, questions=QUESTIONS) -> str:
    """The reason of a call that fails, on one line and in time."""
    began = time.monotonic()
    with pytest.raises(PeerFailedError) as raised:
        peer.answer(questions, DECODING, timeout_s=timeout_s)
    assert time.monotonic() - began < timeout_s + GRACE_S
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_a_killed_peer_comes_back_with_the_same_text(embedded, compact_peer):
    """Its texts are the engine's. SIGKILL costs one call; the next one has the same texts."""
    engine = PeerEngine(EmbeddedEngine.load(str(compact_peer), batch_size=BATCH_SIZE))
    expected = texts(engine.answer(QUESTIONS, DECODING))
    assert texts(embedded.answer(QUESTIONS, DECODING, timeout_s=PATIENCE_S)) == expected
    computing().kill()
    assert "was killed by signal 9" in failure(embedded)
    assert texts(embedded.answer(QUESTIONS, DECODING, timeout_s=PATIENCE_S)) == expected


def test_a_replica_that_is_killed_or_stopped_costs_no_score(compact_peer, tmp_path):
    """Two processes of one peer, as a training asks them: SIGKILL of one, SIGSTOP of the other later."""
    peer = PeerParams(name="a", model=str(compact_peer), replicas=2)
    before = processes()
    with opened_peers([peer], ExecutionParams(runner="thread"), root=tmp_path) as peers:
        asking = Peers(peers, ClassmateParams(timeout_s=PATIENCE_S, max_new_tokens=12))
        expected = asking.ask({"a": QUESTIONS})()["a"]
        assert not any(one.error for group in expected for one in group)
        first, second = all_computing()
        first.kill()
        assert texts(asking.ask({"a": QUESTIONS})()["a"]) == texts(expected)
        second.suspend()
        assert texts(asking.ask({"a": QUESTIONS})()["a"]) == texts(expected)
    assert processes() == before


def test_a_stopped_peer_is_killed(embedded):
    """SIGSTOP, and a question that is longer than the buffer of a socket: the deadline holds."""
    stopped = computing()
    stopped.suspend()
    long = Question(problem=COUNTDOWN, prefix="~" * 4_000_000, seeds=(1,))
    assert failure(embedded, questions=[long]) == "no answer within 2 s"
    assert not stopped.is_running()
    assert embedded.answer(QUESTIONS, DECODING, timeout_s=PATIENCE_S)


def test_a_start_is_not_cut_short(embedded):
    """A call that comes while the process starts fails, and the process goes on starting."""
    computing().kill()
    failure(embedded)
    starting = psutil.Process().children()
    assert "still starting" in failure(embedded, timeout_s=0.1)
    assert psutil.Process().children() == starting
    assert embedded.answer(QUESTIONS, DECODING, timeout_s=PATIENCE_S)


def test_past_the_deadline(served, server):
    """An engine that hangs is killed with its process, and the next call is answered."""
    assert served.answer(QUESTIONS, DECODING, timeout_s=PATIENCE_S)
    server.always = never
    hung = computing()
    assert failure(served) == "no answer within 2 s"
    assert not hung.is_running()
    server.always = answers
    assert served.answer(QUESTIONS, DECODING, timeout_s=PATIENCE_S)


def test_a_server_that_answers_garbage(served, server):
    """Each continuation is an error with a reason; the process stays."""
    own = computing()
    server.always = replies(b"garbage")
    drawn = [one for answer in served.answer(QUESTIONS, DECODING, timeout_s=60) for one in answer]
    assert {one.finish_reason for one in drawn} == {FinishReason.ERROR}
    assert all(one.error for one in drawn)
    assert computing() == own


def test_a_closed_peer_does_not_start_again(server, compact_peer, tmp_path):
    """A call that is waited for fails when the block ends, by an exception as well."""
    peer = check_peer(served_at(server, "a", tokenizer=compact_peer))
    before = processes()
    with ThreadPoolExecutor(1) as pool:
        calls = []

        def leave_while_asked() -> None:
            with process_peers([peer], log_folder=tmp_path) as [opened]:
                server.always = never
                began = len(server.bodies)
                calls.append(pool.submit(opened.answer, QUESTIONS, DECODING, timeout_s=PATIENCE_S))
                while len(server.bodies) == began:
                    time.sleep(0.01)
                raise InterruptedError

        with pytest.raises(InterruptedError):
            leave_while_asked()
        assert isinstance(calls[0].exception(), PeerFailedError)
    assert processes() == before


def test_one_that_cannot_load(compact_peer, tmp_path):
    """One line with the reason and exit code 2; the other peer is closed."""
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text("{}", encoding="utf-8")
    peers = [
        check_peer(PeerParams(name=name, model=str(folder)))
        for name, folder in (("a", compact_peer), ("b", broken))
    ]
    before = processes()
    with (
        pytest.raises(BadInputError, match=f"^classmate b: model {broken}: ") as raised,
        process_peers(peers, log_folder=tmp_path / "logs"),
    ):
        raise AssertionError
    assert "\n" not in str(raised.value)
    assert processes() == before


def test_it_ends_with_its_parent(compact_peer, tmp_path):
    """SIGKILL of the process that opened it leaves none."""
    script = (
        "import pathlib, sys, time\n"
        "from pipeline_lib.systems.classmate.processes import process_peers\n"
        "from pipeline_lib.params.classmate import PeerParams\n"
        "peer = PeerParams(name='a', model=sys.argv[1])\n"
        "with process_peers([peer], log_folder=pathlib.Path(sys.argv[2])):\n"
        "    print('open', flush=True)\n"
        "    time.sleep(600)\n"
    )
    command = [sys.executable, "-c", script, str(compact_peer), str(tmp_path)]
    parent = psutil.Popen(command, stdout=-1)
    assert parent.stdout.readline() == b"open\n"
    family = parent.children(recursive=True)
    assert len(family) == 2
    os.kill(parent.pid, signal.SIGKILL)
    parent.communicate()
    _, alive = psutil.wait_procs(family, timeout=30)
    assert not alive


def test_asked_from_threads(embedded):
    """As `Peers` asks: no call depends on the thread that makes it."""
    found = []
    for _ in range(2):
        thread = threading.Thread(
            target=lambda: found.append(
                texts(embedded.answer(QUESTIONS, DECODING, timeout_s=PATIENCE_S))
            )
        )
        thread.start()
        thread.join()
    assert found[0] == found[1]
