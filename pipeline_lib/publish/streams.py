"""Kafka's clients, and verdicts for the answers of a topic. Needs confluent-kafka.

Keys are ids. The value of a verdict holds nothing that differs between two judgements of one answer; the
seconds are a header. Offsets are stored once all verdicts up to them are acknowledged, so every answer gets
a verdict, and after a crash some get an equal one again.
"""

import json
import logging
import pathlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TypeVar

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from pipeline_lib.errors import BadInputError, ReasonloopError, errors_at, reason_of
from pipeline_lib.records import Row
from pipeline_lib.verdicts import Verdict
from pipeline_lib.verify.dispatch import Verifier
from pipeline_lib.verify.lines import Line, judge_lines, parse_line, verdict_row

CONNECT_S = 10.0
"""Time limit of the first answer of a broker."""
_TOPIC_S = 5.0
"""Time limit for a topic that the brokers create when it is asked for."""
_POLL_S = 0.5
_IDLE_S = 0.2
"""Time limit of one wait for messages."""
CHUNK_MESSAGES = 256
"""Messages judged together."""
_NOT_YET = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE}
_DENIED = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
}

# librdkafka would log each lost connection to stderr; settings may ask for it.
_DEFAULTS: Mapping[str, object] = {
    "log_level": 0,
    # A member that judges a chunk does not poll, and by default would leave its group after 5 minutes.
    "max.poll.interval.ms": 86_400_000,
}
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

_Headers = list[tuple[str, str | bytes | None]]
_Faults = list[tuple[Message, str]]
_Client = TypeVar("_Client", Consumer, Producer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Addresses of brokers, and settings of librdkafka for security and timeouts."""

    brokers: str
    """HOST:PORT, or several joined by commas."""
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    """May hold passwords."""

    def consumer(self, group: str, source: str) -> Consumer:
        """A member of the consumer group ``group``, subscribed to ``source``; it stores no offset by itself.

        Raises:
            BadInputError: a setting cannot be used, or there is no such topic.
            ReasonloopError: no broker answers.
        """
        consumer = self._client(Consumer, {**_CONSUMER, "group.id": group})
        self._require_topic(consumer, source)
        consumer.subscribe([source])
        return consumer

    def reader(self, *topics: str) -> Consumer:
        """A consumer of all messages of ``topics`` from the first on, in no group; errors as of `consumer`."""
        own = {**_CONSUMER, "group.id": "reasonloop", "enable.auto.commit": False}
        reader = self._client(Consumer, own)
        places = [
            TopicPartition(topic, partition, OFFSET_BEGINNING)
            for topic in topics
            for partition in range(self._require_topic(reader, topic))
        ]
        reader.assign(places)
        return reader

    def sender(self, *topics: str) -> "Sender":
        """A producer for ``topics``, which the brokers have or create; errors as of `consumer`."""
        producer = self._client(Producer, _PRODUCER)

        def require_broker() -> None:
            for topic in topics:
                self._require_topic(producer, topic)

        require_broker()
        return Sender(producer, require_broker)

    def _client(self, client: type[_Client], own: Mapping[str, object]) -> _Client:
        given = {**_DEFAULTS, **self.settings, "bootstrap.servers": self.brokers}
        try:
            return client({**given, **own})
        except KafkaException as error:
            raise BadInputError(
                f"settings for {self.brokers}: {_reason(error)}; correct --config"
            ) from None

    def _require_topic(self, client: Consumer | Producer, topic: str) -> int:
        """The number of its partitions."""
        deadline_s = time.monotonic() + _TOPIC_S
        while True:
            try:
                found = client.list_topics(topic, timeout=CONNECT_S).topics[topic]
            except KafkaException as failure:
                raise ReasonloopError(
                    f"no Kafka broker answers at {self.brokers} within {CONNECT_S:.0f} s "
                    f"({_reason(failure)}); check --brokers and --config"
                ) from None
            if found.error is None:
                return len(found.partitions)
            if found.error.code() not in _NOT_YET or time.monotonic() > deadline_s:
                raise BadInputError(
                    f"topic {topic} on {self.brokers}: {found.error.str()}; create it, or check its name"
                )
            time.sleep(_POLL_S)


def read_settings(path: pathlib.Path) -> dict[str, str]:
    """Settings of librdkafka from a properties file: NAME=VALUE lines, ``#`` comments.

    Raises:
        BadInputError: it cannot be read, or a line is no setting; values are not shown.
    """
    with errors_at(path, OSError, UnicodeDecodeError, fault="cannot be read"):
        lines = path.read_text("utf-8").splitlines()
    settings = {}
    for number, line in enumerate(map(str.strip, lines), start=1):
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not (equals and name.strip()):
            raise BadInputError(f"{path}:{number}: expected NAME=VALUE")
        settings[name.strip()] = value.strip()
    return settings


def _reason(error: KafkaException) -> str:
    """The message of librdkafka in one line."""
    found = error.args[0] if error.args else None
    return found.str() if isinstance(found, KafkaError) else reason_of(error)


class Sender:
    """Sends messages in the background; a delivery that has failed for good is raised by each call.

    Raises:
        ReasonloopError: a message was not accepted by the brokers.
    """

    def __init__(self, producer: Producer, require_broker: Callable[[], None]) -> None:
        self._producer = producer
        self.require_broker = require_broker
        """Raises ReasonloopError if no broker answers."""
        self._failure: str | None = None

    def send_row(self, topic: str, row: Row, headers: _Headers) -> int:
        """Queue a row by its id; the number of its bytes if it is larger than the producer's limit, else 0."""
        # ASCII escapes keep lone surrogates of model output representable.
        value = json.dumps(row, ensure_ascii=True).encode()
        key = row["id"].encode("utf-8", "replace")
        return 0 if self.send(topic, key=key, value=value, headers=headers) else len(value)

    def send(
        self, topic: str, *, key: str | bytes | None, value: bytes | None, headers: _Headers
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
                raise ReasonloopError(f"topic {topic}: {_reason(error)}") from error
            else:
                return True

    def flush(self) -> None:
        """Wait until every message is acknowledged."""
        while self._producer.flush(_POLL_S):
            self._check()
            self.require_broker()
        self._check()

    def _check(self) -> None:
        if self._failure is not None:
            raise ReasonloopError(f"{self._failure}; correct that, then run the same command again")


def verify_stream(
    cluster: Cluster,
    source: str,
    target: str,
    verifier: Verifier,
    *,
    group: str,
    stopped: Callable[[], bool],
) -> tuple[int, int]:
    """Judge the answers that arrive in ``source`` until ``stopped``; what was taken by then is finished.

    Verdicts go to ``target``; messages that cannot be judged to ``source``.refused, the reason in a header.
    Returns how many were judged and refused.

    Raises:
        BadInputError: a topic is missing, cannot be used, or is both source and target.
        SandboxUnavailableError: there is code to judge and no sandbox tier is available.
        ReasonloopError: the brokers do not answer or do not accept a verdict.
    """
    refused = f"{source}.refused"
    if target in {source, refused}:
        raise BadInputError(f"verdicts for {source} cannot go to {target}; name another topic")
    num_judged = num_refused = 0
    # Closing commits the stored offsets and leaves the group.
    with closing(cluster.consumer(group, source)) as consumer:
        sender = cluster.sender(target, refused)
        try:
            while not stopped():
                taken = without_events(consumer.consume(CHUNK_MESSAGES, _IDLE_S))
                if not taken:
                    continue
                lines, faults = _parsed(taken)
                verdicts = judge_lines([line for _, line in lines], verifier)
                faults += _send_verdicts(sender, target, lines, verdicts)
                _send_refused(sender, refused, faults)
                sender.flush()
                _store_offsets(consumer, taken)
                num_judged += len(taken) - len(faults)
                num_refused += len(faults)
        except KafkaException as error:
            raise ReasonloopError(f"{cluster.brokers}: {_reason(error)}") from error
    return num_judged, num_refused


def without_events(messages: Iterable[Message]) -> list[Message]:
    """The messages that do not only report an error from which the consumer recovers.

    Raises:
        BadInputError: the topic has gone, or there is no access to it or to the group.
    """
    found = []
    for message in messages:
        error = message.error()
        if error is None:
            found.append(message)
        elif error.fatal() or error.code() in _DENIED:
            raise BadInputError(
                f"topic {message.topic()}: {error.str()}; check it, then start again"
            )
        else:
            logging.getLogger(__name__).warning("%s", error.str())
    return found


def _store_offsets(consumer: Consumer, messages: Iterable[Message]) -> None:
    for last in {message.partition(): message for message in messages}.values():
        try:
            consumer.store_offsets(last)
        except KafkaException as error:
            # The partition was revoked: another member judges its messages again.
            if error.args[0].code() != KafkaError._STATE:  # noqa: SLF001 - a documented code
                raise


def _parsed(messages: Iterable[Message]) -> tuple[list[tuple[Message, Line]], _Faults]:
    lines, faults = [], []
    for message in messages:
        try:
            lines.append((message, _line_of(message)))
        except BadInputError as error:
            faults.append((message, str(error)))
    return lines, faults


def _line_of(message: Message) -> Line:
    """The answer in a message. Without ``id`` its key is the id, and without a key its position."""
    where, content = _position(message), message.value()
    with errors_at(where, ValueError, RecursionError, fault="not JSON"):
        if content is None:
            raise BadInputError("no value")
        value = json.loads(content.decode("utf-8-sig"))
        if not isinstance(value, dict):
            raise BadInputError(f"expected a JSON object, got {type(value).__name__}")
    line = parse_line(value, where=where)
    name = line.id or (message.key() or b"").decode("utf-8", "replace") or where
    return line.model_copy(update={"id": name, "problem_id": line.problem_id or name})


def _position(message: Message) -> str:
    """TOPIC/PARTITION/OFFSET, which no other message has."""
    return f"{message.topic()}/{message.partition()}/{message.offset()}"


def _send_verdicts(
    sender: Sender, topic: str, lines: Sequence[tuple[Message, Line]], verdicts: Sequence[Verdict]
) -> _Faults:
    """Send all; those that are too large are returned."""
    faults = []
    for (message, line), verdict in zip(lines, verdicts, strict=True):
        headers: _Headers = [("seconds", f"{verdict.seconds:.6f}".encode())]
        if too_many := sender.send_row(topic, verdict_row(line.id, verdict), headers):
            faults.append((message, f"its verdict has {too_many} bytes, more than allowed"))
    return faults


def _send_refused(sender: Sender, topic: str, faults: _Faults) -> None:
    for message, why in faults:
        headers: _Headers = [
            ("reason", why.encode("utf-8", "backslashreplace")),
            ("source", _position(message).encode()),
        ]
        key = message.key()
        # With the headers the value may exceed the limit.
        if not any(
            sender.send(topic, key=key, value=value, headers=headers)
            for value in (message.value(), None)
        ):
            raise ReasonloopError(
                f"{_position(message)}: its key alone is larger than message.max.bytes; raise it in --config"
            )
