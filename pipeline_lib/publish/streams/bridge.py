"""The bridge: verdicts for the answers of one topic, sent to another.

Keys are ids. The value of a verdict holds nothing that differs between two judgements of one answer; the
seconds are a header. Offsets are stored once all verdicts up to them are acknowledged, so every answer gets
a verdict, and after a crash some get an equal one again. Answers are judged in a thread, since a consumer
that is not polled meanwhile leaves its group.
"""

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.publish.streams.kafka import Cluster, Header, Sender, encoded, key_of, reason
from pipeline_lib.verdicts import Verdict
from pipeline_lib.verify.dispatch import Verifier
from pipeline_lib.verify.lines import Line, judge_lines, parse_line, verdict_row

CHUNK_MESSAGES = 256
"""Messages judged together."""
_IDLE_S = 0.2
"""Time limit of one wait."""
_DENIED = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
}


@dataclass(slots=True, kw_only=True)
class Counts:
    """Messages that a bridge has sent and that were acknowledged."""

    judged: int = 0
    refused: int = 0


def verify_stream(
    cluster: Cluster,
    source: str,
    target: str,
    verifier: Verifier,
    *,
    group: str,
    stopped: Callable[[], bool],
) -> Counts:
    """Judge the answers that arrive in ``source`` until ``stopped``; what was taken by then is finished.

    Verdicts go to ``target``; messages that cannot be judged to ``source``.refused, the reason in a header.

    Raises:
        BadInputError: a topic is missing, cannot be used, or is both source and target.
        SandboxUnavailableError: there is code to judge and no sandbox tier is available.
        ReasonloopError: the brokers do not answer or do not accept a verdict.
    """
    refused = f"{source}.refused"
    if target in {source, refused}:
        raise BadInputError(f"verdicts for {source} cannot go to {target}; name another topic")
    producer = cluster.producer()
    with (
        # Closing commits the stored offsets and leaves the group.
        closing(cluster.consumer(group)) as consumer,
        ThreadPoolExecutor(1, thread_name_prefix="judge") as executor,
    ):
        cluster.require_topic(consumer, source)
        for topic in (target, refused):
            cluster.require_topic(producer, topic)
        taken = _Taken(consumer, source)
        counts = Counts()
        try:
            while messages := taken.next_chunk(stopped):
                lines, faults = _parsed(messages)
                verdicts = executor.submit(judge_lines, [line for _, line in lines], verifier)
                while not wait([verdicts], _IDLE_S).done:
                    taken.keep_membership()
                faults += _send_verdicts(Sender(producer), target, lines, verdicts.result())
                _send_refused(Sender(producer), refused, faults)
                taken.store_offsets()
                counts.judged += len(messages) - len(faults)
                counts.refused += len(faults)
        except KafkaException as error:
            raise ReasonloopError(f"{cluster.brokers}: {reason(error)}") from error
        return counts


class _Taken:
    """The messages of a topic, chunk by chunk; the offsets of a chunk are stored when it is finished."""

    def __init__(self, consumer: Consumer, topic: str) -> None:
        self._consumer = consumer
        self._topic = topic
        self._waiting: list[Message] = []
        self._ends: dict[int, int] = {}
        """Offset after the last message of each partition in the chunk."""
        # An other member judges revoked partitions from now on.
        consumer.subscribe([topic], on_revoke=self._forget, on_lost=self._forget)

    def next_chunk(self, stopped: Callable[[], bool]) -> list[Message]:
        """The next messages; none once ``stopped``."""
        chunk, self._waiting = self._waiting, []
        while not (chunk or stopped()):
            self._consumer.resume(self._consumer.assignment())
            chunk = _without_events(self._consumer.consume(CHUNK_MESSAGES, _IDLE_S))
        for message in chunk:
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            self._ends[partition] = offset + 1
        return chunk

    def keep_membership(self) -> None:
        """Poll while a chunk is judged; only a partition that was assigned meanwhile has a message."""
        self._consumer.pause(self._consumer.assignment())
        self._waiting += _without_events(self._consumer.consume(1, 0))

    def store_offsets(self) -> None:
        """The chunk is finished."""
        offsets = [
            TopicPartition(self._topic, partition, end) for partition, end in self._ends.items()
        ]
        self._ends.clear()
        try:
            if offsets:
                self._consumer.store_offsets(offsets=offsets)
        except KafkaException as error:
            # A partition was revoked, and the callback is yet to come.
            if error.args[0].code() != KafkaError._STATE:  # noqa: SLF001 - a documented code
                raise

    def _forget(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for gone in partitions:
            self._ends.pop(gone.partition, None)


def _without_events(messages: Iterable[Message]) -> list[Message]:
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


_Faults = list[tuple[Message, str]]


def _parsed(messages: Sequence[Message]) -> tuple[list[tuple[Message, Line]], _Faults]:
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
    if content is None:
        raise BadInputError(f"{where}: no value")
    try:
        value = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"{where}: not JSON ({error})") from error
    if not isinstance(value, dict):
        raise BadInputError(f"{where}: expected a JSON object, got {type(value).__name__}")
    line = parse_line(value, where=where)
    name = line.id or (message.key() or b"").decode("utf-8", "replace") or where
    return line.model_copy(update={"id": name, "problem_id": line.problem_id or name})


def _position(message: Message) -> str:
    """TOPIC/PARTITION/OFFSET, which no other message has."""
    return f"{message.topic()}/{message.partition()}/{message.offset()}"


def _send_verdicts(
    sender: Sender, topic: str, lines: Sequence[tuple[Message, Line]], verdicts: Sequence[Verdict]
) -> _Faults:
    """Send all, and wait for the brokers; those that are too large are returned."""
    faults = []
    for (message, line), verdict in zip(lines, verdicts, strict=True):
        value = encoded(verdict_row(line.id, verdict))
        headers: list[Header] = [("seconds", f"{verdict.seconds:.6f}".encode())]
        if not sender.send(topic, key=key_of(line.id), value=value, headers=headers):
            faults.append((message, f"its verdict has {len(value)} bytes, more than allowed"))
    sender.flush()
    return faults


def _send_refused(sender: Sender, topic: str, faults: _Faults) -> None:
    for message, why in faults:
        headers: list[Header] = [
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
    sender.flush()
