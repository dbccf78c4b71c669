"""Events of a run (work done, seconds, tokens), one JSON line each, outside every digest.

Durations differ between runs, so they are in no hashed record. They are written to
``telemetry/events.jsonl`` of the workspace, which the console and the report read. Events are ``begin``
(a shard, a training or other work began), ``work`` (a shard or a step was done), ``stage`` (a stage that
did work ended), ``spending`` (the usage of the engine for a shard), ``training-end`` (the time after the
last step of a training) and ``note`` (a sentence for the user, such as that a split is smaller than asked
for).
"""

import errno
import json
import os
import pathlib
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

EVENTS_FILE = pathlib.Path("telemetry") / "events.jsonl"
BEGIN = "begin"
Event = dict[str, Any]


def record_event(workspace: pathlib.Path, name: str, **fields: Any) -> None:
    """Append one event."""
    event = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": name, **fields}
    target = workspace / EVENTS_FILE
    target.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(event, sort_keys=True).encode() + b"\n"
    descriptor = os.open(target, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        _write_lines(descriptor, line)
    except OSError as error:
        error.filename = str(target)
        raise
    finally:
        os.close(descriptor)


def _write_lines(descriptor: int, lines: bytes) -> None:
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":  # a full disk cut the last line
        lines = b"\n" + lines
    if os.write(descriptor, lines) < len(lines):  # the last bytes of a disk
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def record_work(
    workspace: pathlib.Path, stage: str, *, done: int, total: int, **fields: Any
) -> None:
    """Record that shard or step ``done`` of ``total`` of a stage was completed.

    ``peak_mib`` is the peak memory of this process since its last such record.
    """
    record_event(
        workspace, "work", stage=stage, done=done, total=total, peak_mib=_take_peak_mib(), **fields
    )


def step_recorder(workspace: pathlib.Path, stage: str, **fields: Any) -> Callable[..., None]:
    """A function of step, total and, of a training, metrics that records steps as work."""

    def record(step: int, total: int, _metrics: Mapping[str, float] = MappingProxyType({})) -> None:
        record_work(workspace, stage, done=step, total=total, unit="step", **fields)

    return record


def _take_peak_mib() -> int:
    """Peak resident memory of this process since the last call; without /proc, since its start."""
    try:
        status = pathlib.Path("/proc/self/status").read_text(encoding="ascii")
        peak_kib = int(status.partition("VmHWM:")[2].split(maxsplit=1)[0])
        pathlib.Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except (OSError, IndexError, ValueError):
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        peak_kib = own // 1024 if sys.platform == "darwin" else own
    return peak_kib // 1024


def count_retried(events: Sequence[Event]) -> int:
    """Attempts that ended without a result: their worker, node or run ended, or they failed.

    Work that was never finished is not counted.
    """
    begun = Counter(_piece(event) for event in events if event["event"] == BEGIN)
    done = Counter(_piece(event) for event in events if event["event"] == "work")
    # Of a training, number 0, the steps are recorded as done, under their numbers.
    ended = ((piece, count) for piece, count in begun.items() if done[piece] or piece[0] == 0)
    return sum(max(0, count - max(1, done[piece])) for piece, count in ended)


def _piece(event: Event) -> tuple[int, str | None, str]:
    """Number, key and label of a piece of work."""
    return event["done"], event.get("key"), work_label(event)


@contextmanager
def timed_stage(workspace: pathlib.Path, stage: str, **fields: Any) -> Iterator[None]:
    """Record a ``stage`` event with the seconds of the block, unless no work was recorded in it.

    For a stage that was killed and resumed these are the seconds of the last part.
    """
    begin = events_size(workspace)
    start = time.perf_counter()
    yield
    seconds = time.perf_counter() - start
    worked = any(
        event["event"] == "work" and event["stage"] == stage
        for event in read_events(workspace, offset=begin)
    )
    if worked:
        record_event(workspace, "stage", stage=stage, seconds=seconds, **fields)


def events_size(workspace: pathlib.Path) -> int:
    """Bytes written so far, as an offset for later events."""
    target = workspace / EVENTS_FILE
    return target.stat().st_size if target.exists() else 0


def read_new_events(workspace: pathlib.Path, offset: int) -> tuple[list[Event], int]:
    """Events of complete lines from byte ``offset`` on, oldest first, and the offset from which to read on."""
    target = workspace / EVENTS_FILE
    if not target.exists():
        return [], offset
    with target.open("rb") as stream:
        stream.seek(offset)
        content = stream.read()
    whole = content[: content.rfind(b"\n") + 1]
    events = []
    for line in whole.splitlines():
        try:
            events.append(json.loads(line))
        except ValueError:
            # A crash cut an earlier line short.
            continue
    return events, offset + len(whole)


class WorkFollower:
    """Reads the events of a workspace as they are written, and counts finished work."""

    def __init__(self, workspace: pathlib.Path) -> None:
        self._workspace = workspace
        self._offset = events_size(workspace)
        self._shards: dict[str, set[int]] = {}

    def read(self) -> list[Event]:
        """The events since the last call, oldest first."""
        events, self._offset = read_new_events(self._workspace, self._offset)
        return events

    def count(self, event: Event) -> int:
        """Pieces finished up to a ``work`` event; each event must be counted once, in order.

        Shards finish in any order and ``done`` is a shard's number, so distinct numbers are counted.
        For a step ``done`` is the count: a resumed training starts at a later step.
        """
        if event.get("unit") == "step":
            return int(event["done"])
        shards = self._shards.setdefault(work_label(event), set())
        shards.add(event["done"])
        return len(shards)


def work_label(event: Event) -> str:
    """Name of the draw, training or stage that a ``work`` event belongs to."""
    return str(event.get("label") or event["stage"])


def read_events(workspace: pathlib.Path, *, offset: int = 0) -> list[Event]:
    """Events from byte ``offset`` on, oldest first."""
    return read_new_events(workspace, offset)[0]


def stage_seconds(events: list[Event]) -> Mapping[str, float]:
    """Seconds per stage: the last event of each draw, summed over draws."""
    totals: dict[str, float] = {}
    for event in _latest_stages(events):
        stage = event["stage"]
        totals[stage] = totals.get(stage, 0.0) + float(event["seconds"])
    return totals


def stage_peaks(events: Sequence[Event]) -> Mapping[str, int]:
    """Peak memory per stage in MiB, of its largest process; servers and verifiers' processes do not count."""
    peaks: dict[str, int] = {}
    for event in events:
        if event["event"] == "work" and "peak_mib" in event:
            stage = event["stage"]
            peaks[stage] = max(peaks.get(stage, 0), event["peak_mib"])
    return peaks


def total_seconds(events: list[Event]) -> float:
    """Seconds in which at least one stage worked, by the events of :func:`stage_seconds`."""
    return union_seconds([interval(event, event["seconds"]) for event in _latest_stages(events)])


def _latest_stages(events: list[Event]) -> list[Event]:
    latest = {(e["stage"], e.get("draw")): e for e in events if e["event"] == "stage"}
    return list(latest.values())


def interval(event: Event, seconds: float) -> tuple[float, float]:
    """Start and end, as Unix time, of work that took ``seconds`` and was recorded at its end."""
    end = datetime.fromisoformat(event["at"]).timestamp()
    return end - float(seconds), end


def union_seconds(intervals: Sequence[tuple[float, float]]) -> float:
    """Length of the union of ``intervals``."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total
