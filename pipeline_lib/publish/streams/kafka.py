"""Clients of a Kafka cluster: settings, topics, and a producer that raises failed deliveries.

Needs the optional package confluent-kafka, as all modules of this package do.
"""

import json
import pathlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from pipeline_lib.errors import BadInputError, ReasonloopError, reason_of
from pipeline_lib.records import Row

CONNECT_S = 10.0
"""Time limit of the first answer of a broker."""
_TOPIC_S = 5.0
"""Time limit for a topic that the brokers create when it is asked for."""
_POLL_S = 0.5
_NOT_YET = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE}

# librdkafka would log each lost connection to stderr; settings may ask for it.
_DEFAULTS: Mapping[str, object] = {"log_level": 0}
_CONSUMER: Mapping[str, object] = {
    "auto.offset.reset": "earliest",
    # Stored offsets are committed in the background, before a rebalance, and on closing.
    "enable.auto.commit": True,
    "auto.commit.interval.ms": 1000,
    "enable.auto.offset.store": False,
    "queued.max.messages.kbytes": 16384,
}
_PRODUCER: Mapping[str, object] = {
    "enable.idempotence": True,
    # Java clients choose the same partition for a key.
    "partitioner": "murmur2_random",
}

Header = tuple[str, str | bytes | None]
_Client = TypeVar("_Client", Consumer, Producer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Addresses of brokers, and settings of librdkafka for security and timeouts."""

    brokers: str
    """HOST:PORT, or several joined by commas."""
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    """May hold passwords."""

    def consumer(self, group: str) -> Consumer:
        """A member of the consumer group ``group``, which stores no offset by itself.

        Raises:
            BadInputError: a setting is unknown or unusable.
        """
        return self._client(Consumer, {**_CONSUMER, "group.id": group})

    def producer(self) -> Producer:
        """A producer whose retries cannot repeat a message.

        Raises:
            BadInputError: a setting is unknown or unusable.
        """
        return self._client(Producer, _PRODUCER)

    def _client(self, client: type[_Client], own: Mapping[str, object]) -> _Client:
        given = {**_DEFAULTS, **self.settings, "bootstrap.servers": self.brokers}
        try:
            return client({**given, **own})
        except KafkaException as error:
            raise BadInputError(
                f"settings for {self.brokers}: {reason(error)}; correct --config"
            ) from None

    def require_topic(self, client: Consumer | Producer, topic: str) -> None:
        """Check that a broker answers and has ``topic``, or creates it for a producer.

        Raises:
            ReasonloopError: no broker answers within `CONNECT_S`.
            BadInputError: there is no such topic, or no access to it.
        """
        deadline_s = time.monotonic() + _TOPIC_S
        while error := self._topic_error(client, topic):
            if error.code() not in _NOT_YET or time.monotonic() > deadline_s:
                raise BadInputError(
                    f"topic {topic} on {self.brokers}: {error.str()}; create it, or check its name"
                )
            time.sleep(_POLL_S)

    def _topic_error(self, client: Consumer | Producer, topic: str) -> KafkaError | None:
        try:
            found: KafkaError | None = (
                client.list_topics(topic, timeout=CONNECT_S).topics[topic].error
            )
        except KafkaException as error:
            raise ReasonloopError(
                f"no Kafka broker answers at {self.brokers} within {CONNECT_S:.0f} s "
                f"({reason(error)}); check --brokers and --config"
            ) from None
        return found


def read_settings(path: pathlib.Path) -> dict[str, str]:
    """Settings of librdkafka from a properties file: NAME=VALUE lines, ``#`` comments.

    Raises:
        BadInputError: it cannot be read, or a line is no setting; values are not shown.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{path}: cannot be read ({reason_of(error)})") from error
    settings = {}
    for number, line in enumerate(map(str.strip, lines), start=1):
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not (equals and name.strip()):
            raise BadInputError(f"{path}:{number}: expected NAME=VALUE")
        settings[name.strip()] = value.strip()
    return settings


def reason(error: KafkaException) -> str:
    """The message of librdkafka in one line."""
    found = error.args[0] if error.args else None
    return found.str() if isinstance(found, KafkaError) else reason_of(error)


def encoded(row: Row) -> bytes:
    """One JSON line; ASCII escapes keep lone surrogates of model output representable."""
    return json.dumps(row, ensure_ascii=True).encode()


def key_of(name: str) -> bytes:
    """The key for an id."""
    return name.encode("utf-8", "replace")


class Sender:
    """Sends messages in the background; a delivery that has failed for good is raised by each call.

    Raises:
        ReasonloopError: a message was not accepted by the brokers.
    """

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._failure: str | None = None

    def send(
        self, topic: str, *, key: str | bytes | None, value: bytes | None, headers: list[Header]
    ) -> bool:
        """Queue one message; False if it is larger than the producer's limit."""

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                self._failure = f"topic {topic} did not accept a message: {error.str()}"

        while True:
            self._check()
            try:
                self._producer.produce(
                    topic, key=key, value=value, headers=headers, on_delivery=delivered
                )
            except BufferError:  # the queue is full
                self._producer.poll(_POLL_S)
            except KafkaException as error:
                if error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:
                    return False
                raise ReasonloopError(f"topic {topic}: {reason(error)}") from error
            else:
                return True

    def flush(self) -> None:
        """Wait until every message is acknowledged."""
        while self._producer.flush(_POLL_S):
            self._check()
        self._check()

    def _check(self) -> None:
        if self._failure is not None:
            raise ReasonloopError(f"{self._failure}; correct that, then run the same command again")
