"""`reasonloop stream` as a process: killed, stopped, joined by another member."""

import collections
import os
import random
import signal
import sys
import time

import pytest

from tests.unit.publish.topics import Topics, cluster_for_tests
from tests.waiting import until

NUM_LINES = 10_000
GROUP = "judges"
GIVE_UP_S = 240.0


@pytest.fixture(scope="module")
def address():
    with cluster_for_tests() as found:
        yield found


@pytest.fixture
def topics(address):
    return Topics(address)


@pytest.fixture
def start(spawn, topics, tmp_path):
    """Start a bridge as a process of its own."""
    config = tmp_path / "client.properties"
    # A killed member is missed after 6 s, the least that brokers allow.
    config.write_text("session.timeout.ms=6000\n", "utf-8")
    return lambda source, target: spawn(
        *("stream", "verify", "--brokers", topics.brokers, "--config", config),
        *("--from", source, "--to", target, "--group", GROUP),
    )


def lines(count):
    """Half of them right; each line has an id and a verdict of its own."""
    return [
        {
            "id": f"line-{number}",
            "kind": "countdown",
            "numbers": [3, 5, number],
            "target": 8 + number,
            "text": f"3+5=8\n8+{number}={8 + number}" if number % 2 else f"3*5=15\n{number}",
        }
        for number in range(count)
    ]


def stop(process):
    """End the bridge by SIGTERM; its output."""
    process.send_signal(signal.SIGTERM)
    assert process.wait(GIVE_UP_S) == 0, process.log.read_text("utf-8")
    return process.log.read_text("utf-8")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_three_kills_lose_nothing(start, topics):
    """10,000 lines with three SIGKILLs at random: after removal of equal repeats, one verdict a line,
    and the one that `reasonloop verify` gives."""
    source, target = topics.make("in"), topics.make("out")
    topics.send(source, lines(NUM_LINES))
    places = random.Random(7)
    process = start(source, target)
    for kill in range(3):
        most = NUM_LINES * (kill + 1) // 4
        count = places.randrange(most // 2, most)
        until(lambda count=count: topics.count(target) > count, process=process)
        time.sleep(places.random() / 10)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert topics.committed(source, GROUP) < NUM_LINES, "the kill came too late"
        process = start(source, target)
    until(lambda: topics.committed(source, GROUP) == NUM_LINES, process=process)
    stop(process)
    rows = [tuple(row.items()) for row in topics.values(target)]
    repeats = len(rows) - NUM_LINES
    assert repeats >= 0
    distinct = [dict(row) for row in dict.fromkeys(rows)]
    assert collections.Counter(row["id"] for row in distinct) == {
        f"line-{number}": 1 for number in range(NUM_LINES)
    }
    right = {row["id"] for row in distinct if row["lenient"]}
    assert right == {f"line-{number}" for number in range(NUM_LINES) if number % 2}
    print(f"{repeats} repeated verdicts")


@pytest.mark.slow
def test_sigterm_drains(start, topics):
    """What was taken is answered and committed: a second bridge repeats nothing."""
    source, target = topics.make("in"), topics.make("out")
    topics.send(source, lines(NUM_LINES))
    process = start(source, target)
    until(lambda: topics.count(target) > 0, process=process)
    printed = stop(process)
    done = topics.count(target)
    assert 0 < done < NUM_LINES
    assert f"{done} judged, 0 refused" in printed
    assert topics.committed(source, GROUP) == done
    process = start(source, target)
    until(lambda: topics.committed(source, GROUP) == NUM_LINES, process=process)
    stop(process)
    assert topics.count(target) == NUM_LINES


@pytest.mark.slow
def test_a_second_member_shares_the_topic(start, topics):
    """Members that join and leave while lines are judged lose none."""
    source, target = topics.make("in"), topics.make("out")
    topics.send(source, lines(NUM_LINES // 2))
    first = start(source, target)
    until(lambda: topics.count(target) > 0, process=first)
    second = start(source, target)
    for part in range(5):
        topics.send(source, lines(NUM_LINES // 10))
        time.sleep(2)
        if part == 3:
            stop(first)
    until(lambda: topics.committed(source, GROUP) == NUM_LINES, process=second)
    counts = [int(stop(second).rpartition(" judged")[0].split()[-1])]
    assert counts[0] > 0
    ids = collections.Counter(row["id"] for row in topics.values(target))
    assert set(ids) == {f"line-{number}" for number in range(NUM_LINES // 2)}
    assert all(ids[f"line-{number}"] >= 6 for number in range(NUM_LINES // 10))


def test_without_the_extra(refused, monkeypatch):
    """One line with the command to install it, exit code 2."""
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    monkeypatch.delitem(sys.modules, "pipeline_lib.publish.streams", raising=False)
    line = refused("stream", "verify", "--brokers", "127.0.0.1:1", "--from", "a", "--to", "b")
    assert "confluent_kafka is not installed" in line
    assert "pip install 'reasonloop[kafka]'" in line


def test_stages_of_one_system(refused):
    """Stages of two systems, or none, are refused before anything starts."""
    for names in ((), ("sample", "apr-train")):
        line = refused("stream", "stage", *names, "--brokers", "127.0.0.1:1")
        assert "give stages of one system" in line
