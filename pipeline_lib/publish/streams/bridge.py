"""The bridge: verdicts for the answers of one topic, sent to another.

Offsets are stored once all verdicts up to them are acknowledged, so every answer gets a verdict, and
after a crash some get an equal one again. Answers are judged in a thread, since a consumer that is not
polled meanwhile leaves its group.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.publish.streams.kafka import Cluster, Header, Sender, reason
from pipeline_lib.publish.streams.messages import (
    REASON,
    SECONDS,
    SOURCE,
    encoded,
    key_of,
    line_of,
    source_of,
)
from pipeline_lib.verdicts import Verdict
from pipeline_lib.verify.dispatch import open_verifier
from pipeline_lib.verify.lines.files import judge_lines, verdict_row
from pipeline_lib.verify.lines.format import Line

CHUNK_MESSAGES = 256
"""Messages judged together."""
CHUNKS_IN_FLIGHT = 3
"""One in judgement, one queued, one whose verdicts are being acknowledged."""
_IDLE_S, _BUSY_S = 0.2, 0.02
"""Time limits of one wait, without and with messages in flight."""
_DENIED = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Topics:
    """Topics of one bridge."""

    source: str
    target: str

    @property
    def refused(self) -> str:
        """For messages that cannot be judged, with the reason in a header."""
        return f"{self.source}.refused"


@dataclass(slots=True, kw_only=True)
class Counts:
    """Messages that a bridge has sent and that were acknowledged."""

    judged: int = 0
    refused: int = 0


def verify_stream(
    cluster: Cluster,
    topics: Topics,
    params: VerifyParams,
    *,
    group: str,
    workers: int,
    stopped: Callable[[], bool],
) -> Counts:
    """Judge the answers that arrive until ``stopped``; what was taken by then is finished.

    Raises:
        BadInputError: a topic is missing, cannot be used, or is both source and target.
        SandboxUnavailableError: there is code to judge and no sandbox tier is available.
        ReasonloopError: the brokers do not answer or do not accept a verdict.
    """
    if topics.target in {topics.source, topics.refused}:
        raise BadInputError(
            f"verdicts for {topics.source} cannot go to {topics.target}; name another topic"
        )
    producer = cluster.producer()
    with (
        # Closing commits the stored offsets and leaves the group.
        closing(cluster.consumer(group)) as consumer,
        open_verifier(params, workers=workers) as verifier,
        ThreadPoolExecutor(1, thread_name_prefix="judge") as executor,
    ):
        cluster.require_topic(consumer, topics.source)
        for topic in (topics.target, topics.refused):
            cluster.require_topic(producer, topic)
        bridge = _Bridge(
            consumer,
            Sender(producer),
            topics,
            judge=lambda lines: executor.submit(judge_lines, lines, verifier),
        )
        try:
            return bridge.run(stopped)
        except KafkaException as error:
            raise ReasonloopError(f"{cluster.brokers}: {reason(error)}") from error


@dataclass(slots=True, kw_only=True, eq=False)
class _Chunk:
    """Messages that were taken together, in order."""

    lines: list[tuple[Message, Line]]
    refused: list[tuple[Message, str]]
    ends: dict[int, int]
    """Offset after the last message of each partition."""
    verdicts: Future[list[Verdict]]
    sent: bool = False
    unacknowledged: int = 0


class _Bridge:
    def __init__(
        self,
        consumer: Consumer,
        sender: Sender,
        topics: Topics,
        *,
        judge: Callable[[Sequence[Line]], Future[list[Verdict]]],
    ) -> None:
        self._consumer = consumer
        self._sender = sender
        self._topics = topics
        self._judge = judge
        self._chunks: deque[_Chunk] = deque()
        self._paused = False
        self._counts = Counts()

    def run(self, stopped: Callable[[], bool]) -> Counts:
        """Take, judge, send and store until ``stopped`` and nothing is in flight."""
        self._consumer.subscribe(
            [self._topics.source],
            on_assign=self._begin,
            on_revoke=self._forget,
            on_lost=self._forget,
        )
        while self._chunks or not stopped():
            if len(self._chunks) < CHUNKS_IN_FLIGHT and not stopped():
                self._resume()
                limit_s = _BUSY_S if self._chunks else _IDLE_S
                self._take(self._consumer.consume(CHUNK_MESSAGES, limit_s))
            elif not self._progressed():
                self._pause()
                self._take(self._consumer.consume(1, 0))
            self._send_judged()
            self._store_acknowledged()
        return self._counts

    def _begin(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        # New partitions are not paused.
        self._paused = False

    def _forget(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Store no offset of partitions that another member judges from now on."""
        for chunk in self._chunks:
            for gone in partitions:
                chunk.ends.pop(gone.partition, None)

    def _pause(self) -> None:
        if not self._paused:
            self._consumer.pause(self._consumer.assignment())
            self._paused = True

    def _resume(self) -> None:
        if self._paused:
            self._consumer.resume(self._consumer.assignment())
            self._paused = False

    def _take(self, messages: Iterable[Message]) -> None:
        lines, refused, ends = [], [], {}
        for message in messages:
            if _is_event(message):
                continue
            try:
                lines.append((message, line_of(message)))
            except BadInputError as error:
                refused.append((message, str(error)))
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            ends[partition] = offset + 1
        if ends:
            verdicts = self._judge([line for _, line in lines])
            self._chunks.append(_Chunk(lines=lines, refused=refused, ends=ends, verdicts=verdicts))

    def _progressed(self) -> bool:
        """Wait for the oldest chunk; False if nothing has happened."""
        oldest = self._chunks[0]
        if oldest.sent:
            return self._sender.poll(_IDLE_S) > 0
        return bool(wait([oldest.verdicts], _IDLE_S).done)

    def _send_judged(self) -> None:
        for chunk in self._chunks:
            if chunk.sent:
                continue
            if not chunk.verdicts.done():
                return
            chunk.sent = True
            for (message, line), verdict in zip(chunk.lines, chunk.verdicts.result(), strict=True):
                self._send_verdict(chunk, message, line.id, verdict)
            for message, why in chunk.refused:
                self._refuse(chunk, message, why)

    def _send_verdict(self, chunk: _Chunk, message: Message, name: str, verdict: Verdict) -> None:
        def acknowledged() -> None:
            chunk.unacknowledged -= 1
            self._counts.judged += 1

        value = encoded(verdict_row(name, verdict))
        chunk.unacknowledged += 1
        if not self._sender.send(
            self._topics.target,
            key=key_of(name),
            value=value,
            headers=[(SECONDS, f"{verdict.seconds:.6f}".encode())],
            on_acknowledged=acknowledged,
        ):
            chunk.unacknowledged -= 1
            self._refuse(chunk, message, f"its verdict has {len(value)} bytes, more than allowed")

    def _refuse(self, chunk: _Chunk, message: Message, why: str) -> None:
        def acknowledged() -> None:
            chunk.unacknowledged -= 1
            self._counts.refused += 1

        headers: list[Header] = [
            (REASON, why.encode("utf-8", "backslashreplace")),
            (SOURCE, source_of(message).encode()),
        ]
        chunk.unacknowledged += 1
        for value in (message.value(), None):  # with the headers it may exceed the limit
            if self._sender.send(
                self._topics.refused,
                key=message.key(),
                value=value,
                headers=headers,
                on_acknowledged=acknowledged,
            ):
                return
        raise ReasonloopError(
            f"{source_of(message)}: its key alone is larger than message.max.bytes; raise it in --config"
        )

    def _store_acknowledged(self) -> None:
        self._sender.poll(0)
        while self._chunks and self._chunks[0].sent and not self._chunks[0].unacknowledged:
            ends = self._chunks.popleft().ends
            offsets = [
                TopicPartition(self._topics.source, partition, end)
                for partition, end in ends.items()
            ]
            try:
                if offsets:
                    self._consumer.store_offsets(offsets=offsets)
            except KafkaException as error:
                # A partition was revoked, and the callback is yet to come.
                if error.args[0].code() != KafkaError._STATE:  # noqa: SLF001 - a documented code
                    raise


def _is_event(message: Message) -> bool:
    """True if it only reports an error, from which the consumer recovers.

    Raises:
        BadInputError: the topic has gone, or there is no access to it or to the group.
    """
    error = message.error()
    if error is not None and (error.fatal() or error.code() in _DENIED):
        raise BadInputError(f"topic {message.topic()}: {error.str()}; check it, then start again")
    if error is not None:
        logging.getLogger(__name__).warning("%s", error.str())
    return error is not None
