"""Work that is done once per key: reuse of what is there, sealing, timing and events in one place.

A result is reused if it is complete, undamaged and made under the same key. Otherwise the work is
done, its result sealed, and a ``work`` event recorded with the seconds that it took.
"""

import pathlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pipeline_lib.cpu_time import shard_meter
from pipeline_lib.storage import manifests, shards
from pipeline_lib.storage.folders import replaced
from pipeline_lib.storage.manifests import Manifest
from pipeline_lib.telemetry import record_work


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One piece of a stage's work."""

    workspace: pathlib.Path
    stage: str
    key: str
    """See `stages.keys.stage_key`."""
    index: int = 0
    """Of the shard."""
    total: int = 1
    """Units of the stage that share a progress bar."""
    label: str | None = None
    """Name of the progress bar; None: that of the stage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Content of one shard."""

    rows: Sequence[Mapping[str, Any]]
    counts: Mapping[str, float] = field(default_factory=dict)
    """For its manifest and its event."""


def make_folder(
    unit: Unit,
    folder: pathlib.Path,
    *,
    kind: str,
    fill: Callable[[pathlib.Path], Mapping[str, float] | None],
) -> Manifest:
    """The sealed folder of ``unit``.

    Args:
        unit: the piece of work.
        folder: its place. It is replaced as a whole, so a reader never sees half of it.
        kind: of its manifest.
        fill: writes the content into an empty folder and returns counts for the manifest.
    """
    found = manifests.current(folder, kind=kind, key=unit.key)
    if found is None:
        with recorded(unit), replaced(folder) as fresh:
            found = manifests.seal(fresh, kind=kind, key=unit.key, counts=fill(fresh))
    return found


def make_shard(unit: Unit, table: pathlib.Path, *, kind: str, rows: Callable[[], Rows]) -> Manifest:
    """The sealed shard ``unit.index`` of ``table``, with the rows that ``rows`` returns."""
    found = shards.finished_shard(table, unit.index, kind=kind, key=unit.key)
    if found is None:
        with recorded(unit) as event:
            made = rows()
            event.update(made.counts)
            found = shards.write_shard(
                table, unit.index, made.rows, kind=kind, key=unit.key, counts=made.counts
            )
    return found


@contextmanager
def recorded(unit: Unit) -> Iterator[dict[str, Any]]:
    """Record the block as work of ``unit``; what it adds to the yielded dict goes into the event."""
    fields: dict[str, Any] = {}
    start = time.perf_counter()
    with shard_meter().block() as block:
        yield fields
    record_work(
        unit.workspace,
        unit.stage,
        done=unit.index + 1,
        total=unit.total,
        key=unit.key,
        cpu_seconds=block.cpu_seconds,
        worker_seconds=time.perf_counter() - start,
        **({"label": unit.label} if unit.label else {}),
        **fields,
    )
