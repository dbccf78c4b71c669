"""Messages: answers to judge in the format of `reasonloop verify`, their verdicts, refused ones.

Keys are ids. The value of a verdict holds nothing that differs between two judgements of one answer;
the seconds are a header.
"""

import json
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Message

from pipeline_lib.errors import BadInputError
from pipeline_lib.records import Row
from pipeline_lib.verify.lines.format import Line, parse_line

REASON = "reason"
"""Header of a refused message."""
SOURCE = "source"
"""Header of a refused message: TOPIC/PARTITION/OFFSET."""
SECONDS = "seconds"
"""Header of a verdict: the time of its verification."""


def source_of(message: Message) -> str:
    """TOPIC/PARTITION/OFFSET, which no other message has."""
    return f"{message.topic()}/{message.partition()}/{message.offset()}"


def line_of(message: Message) -> Line:
    """The answer in a message. Without ``id`` its key is the id, and without a key its position.

    Raises:
        BadInputError: it cannot be used; with position and key of the line.
    """
    where = source_of(message)
    line = parse_line(_json_object(message.value(), where=where), where=where)
    name = line.id or (message.key() or b"").decode("utf-8", "replace") or where
    return line.model_copy(update={"id": name, "problem_id": line.problem_id or name})


def _json_object(content: bytes | None, *, where: str) -> Mapping[str, Any]:
    if content is None:
        raise BadInputError(f"{where}: no value")
    try:
        value = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"{where}: not JSON ({error})") from error
    if not isinstance(value, dict):
        raise BadInputError(f"{where}: expected a JSON object, got {type(value).__name__}")
    return value


def encoded(row: Row) -> bytes:
    """One JSON line; ASCII escapes keep lone surrogates of model output representable."""
    return json.dumps(row, ensure_ascii=True).encode()


def key_of(name: str) -> bytes:
    """The key for an id."""
    return name.encode("utf-8", "replace")
