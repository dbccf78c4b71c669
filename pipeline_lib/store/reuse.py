"""Work that is done once per key: reuse, sealing, timing and events in one place.

A result is reused if it is complete, undamaged and made under the same key. Otherwise the work is
done, its result is sealed, and a ``work`` event with its seconds is recorded.
"""

import os
import pathlib
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pipeline_lib.cpu_time import shard_meter
from pipeline_lib.params.environment import environment
from pipeline_lib.store import manifests, shards
from pipeline_lib.store.folders import replaced
from pipeline_lib.store.manifests import Manifest
from pipeline_lib.telemetry import BEGIN, record_event, record_work


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One piece of a stage's work."""

    workspace: pathlib.Path
    """Root folder."""
    stage: str
    key: str
    """See `store.keys.stage_key`."""
    index: int = 0
    """Index of the shard."""
    total: int = 1
    """Units of the stage that share a progress bar."""
    label: str | None = None
    """Name of the progress bar; None: the name of the stage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows of one shard, with counts."""

    rows: Sequence[Mapping[str, Any]]
    counts: Mapping[str, float] = field(default_factory=dict)
    """Counts for the manifest and the event."""


def make_folder(
    unit: Unit,
    folder: pathlib.Path,
    *,
    kind: str,
    fill: Callable[[pathlib.Path], Mapping[str, float] | None],
) -> Manifest:
    """Return the sealed folder of ``unit``, made if no current one exists.

    ``fill`` writes the content into an empty folder and returns counts for the manifest. The folder is
    replaced as a whole, so a reader never sees a partial one.
    """
    found = manifests.current(folder, kind=kind, key=unit.key)
    if found is None:
        with record_unit(unit), replaced(folder) as fresh:
            found = manifests.seal(fresh, kind=kind, key=unit.key, counts=fill(fresh))
    return found


def make_shard(unit: Unit, table: pathlib.Path, *, kind: str, rows: Callable[[], Rows]) -> Manifest:
    """Return the sealed shard ``unit.index`` of ``table``, made by ``rows`` if no current one exists."""
    found = shards.finished_shard(table, unit.index, kind=kind, key=unit.key)
    if found is None:
        with record_unit(unit) as event:
            made = rows()
            event.update(made.counts)
            found = shards.write_shard(
                table, unit.index, made.rows, kind=kind, key=unit.key, counts=made.counts
            )
    return found


def record_begin(
    workspace: pathlib.Path, stage: str, *, key: str, number: int = 0, **fields: Any
) -> None:
    """Record that a piece of work begins on this host: shard ``number`` (from 1), or a training (0)."""
    record_event(
        workspace,
        BEGIN,
        stage=stage,
        key=key,
        done=number,
        host=platform.node(),
        pid=os.getpid(),
        devices=environment("CUDA_VISIBLE_DEVICES"),
        **fields,
    )


@contextmanager
def record_unit(unit: Unit) -> Iterator[dict[str, Any]]:
    """Record the block as work of ``unit``; entries of the yielded dict are added to the last event."""
    fields: dict[str, Any] = {}
    label = {"label": unit.label} if unit.label else {}
    record_begin(unit.workspace, unit.stage, key=unit.key, number=unit.index + 1, **label)
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
        **label,
        **fields,
    )
