"""Events of a run (seconds, tokens, counts), one JSON line each, outside every digest.

Durations differ from run to run, so they never stand in a record that is hashed: they are written
to ``telemetry/events.jsonl`` of the workspace, and the report reads them from there.
"""

import json
import os
import pathlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

EVENTS_FILE = pathlib.Path("telemetry") / "events.jsonl"


def record_event(workspace: pathlib.Path, name: str, **fields: Any) -> None:
    """Append one event. A line is one ``write`` in append mode, so processes do not interleave."""
    target = workspace / EVENTS_FILE
    target.parent.mkdir(parents=True, exist_ok=True)
    event = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": name, **fields}
    line = json.dumps(event, sort_keys=True).encode() + b"\n"
    descriptor = os.open(target, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


def read_events(workspace: pathlib.Path, name: str | None = None) -> list[dict[str, Any]]:
    """All events (of one name), oldest first. A last line cut by a crash is left out."""
    target = workspace / EVENTS_FILE
    if not target.exists():
        return []
    events = []
    for line in target.read_text(encoding="utf-8").splitlines():
        try:
            event = json.loads(line)
        except json.JSONDecodeError:
            continue
        if name is None or event["event"] == name:
            events.append(event)
    return events


@contextmanager
def timed_event(workspace: pathlib.Path, name: str, **fields: Any) -> Iterator[dict[str, Any]]:
    """Record ``name`` with its ``seconds`` when the block ends without an error.

    The yielded dictionary takes further fields that are known only inside the block.
    """
    start = time.perf_counter()
    extra: dict[str, Any] = {}
    yield extra
    record_event(workspace, name, seconds=time.perf_counter() - start, **fields, **extra)
