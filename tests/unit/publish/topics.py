"""Topics of a cluster for tests: a real one at KAFKA_BOOTSTRAP, else librdkafka's mock cluster.

The mock cluster lives in this process, but speaks Kafka's protocol over TCP, also to other processes.
"""

import json
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.publish.streams import Cluster, verify_stream
from pipeline_lib.verify.dispatch import open_verifier

WAIT_S = 30.0
PARTITIONS = 4
GIVE_UP_S = 120.0


@dataclass
class Topics:
    """Topics whose names no other test uses."""

    brokers: str
    token: str = field(default_factory=lambda: uuid.uuid4().hex[:8])

    def cluster(self, **settings: str) -> Cluster:
        return Cluster(brokers=self.brokers, settings=settings)

    def make(self, name: str) -> str:
        """A new topic."""
        topic = f"{name}-{self.token}"
        self._create(topic)
        self._create(f"{topic}.refused")
        return topic

    def _create(self, topic: str) -> None:
        if os.environ.get("KAFKA_BOOTSTRAP"):
            admin = AdminClient({"bootstrap.servers": self.brokers})
            created = admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
            created[topic].result(WAIT_S)
        else:  # the mock cluster creates what a producer asks for
            found = self._producer().list_topics(topic, timeout=WAIT_S).topics[topic]
            assert len(found.partitions) == PARTITIONS

    def _producer(self) -> Producer:
        return Producer({"bootstrap.servers": self.brokers, "log_level": 0})

    def send(self, topic: str, values: Sequence[dict | bytes | None], *, key=None) -> None:
        producer = self._producer()
        for value in values:
            content = json.dumps(value).encode() if isinstance(value, dict) else value
            producer.produce(topic, value=content, key=key)
            producer.poll(0)
        assert producer.flush(WAIT_S) == 0

    def read(self, topic: str) -> list[Message]:
        """All messages so far."""
        with self._reader() as reader:
            found = []
            for partition in range(PARTITIONS):
                place = TopicPartition(topic, partition, 0)
                _, end = reader.get_watermark_offsets(place, timeout=WAIT_S)
                reader.assign([place])
                last = -1
                while last < end - 1:
                    message = reader.poll(WAIT_S)
                    assert message is not None
                    assert message.error() is None
                    found.append(message)
                    last = message.offset()
            return found

    def values(self, topic: str) -> list[dict]:
        return [json.loads(message.value()) for message in self.read(topic)]

    def count(self, topic: str) -> int:
        """Messages so far."""
        with self._reader() as reader:
            places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
            return sum(reader.get_watermark_offsets(p, timeout=WAIT_S)[1] for p in places)

    def committed(self, topic: str, group: str) -> int:
        """Messages of ``topic`` that ``group`` need not take again."""
        with self._reader(group) as reader:
            places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
            return sum(max(0, p.offset) for p in reader.committed(places, timeout=WAIT_S))

    @contextmanager
    def _reader(self, group: str = "reader") -> Iterator[Consumer]:
        reader = Consumer(
            {
                "bootstrap.servers": self.brokers,
                "group.id": group,
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        try:
            yield reader
        finally:
            reader.close()


BROKER = """
import time
from confluent_kafka import Producer
brokers = Producer({"test.mock.num.brokers": 1, "log_level": 0})
print([one.port for one in brokers.list_topics(timeout=30).brokers.values()][0], flush=True)
time.sleep(3600)
"""


@contextmanager
def broker_process() -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """Address and process of a mock cluster that can be killed."""
    command = [sys.executable, "-c", BROKER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield f"127.0.0.1:{process.stdout.readline().strip()}", process
        finally:
            process.kill()


@contextmanager
def cluster_for_tests() -> Iterator[str]:
    """Its address."""
    if address := os.environ.get("KAFKA_BOOTSTRAP"):
        yield address
        return
    brokers = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    found = list(brokers.list_topics(timeout=WAIT_S).brokers.values())
    yield f"127.0.0.1:{found[0].port}"
    del brokers


def bridged(
    topics: Topics, source: str, target: str, *, until: Callable[[], bool], **settings: str
) -> tuple[int, int]:
    """Numbers of a bridge in this thread, stopped once ``until()``, which another thread asks."""
    done = threading.Event()
    failures = []

    def watch():
        deadline_s = time.monotonic() + GIVE_UP_S
        while not done.is_set() and not until():
            if time.monotonic() > deadline_s:
                failures.append("not reached")
                break
            time.sleep(0.1)
        done.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        cluster = topics.cluster(**settings)
        with open_verifier(VerifyParams(), workers=2) as verifier:
            return verify_stream(
                cluster, source, target, verifier, group=topics.token, stopped=done.is_set
            )
    finally:
        done.set()
        watcher.join()
        assert not failures
