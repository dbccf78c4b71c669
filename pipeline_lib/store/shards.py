"""Tables in parquet shards, the unit of work, retry and resume."""

import itertools
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline_lib.errors import BadInputError, CorruptArtifactError
from pipeline_lib.store import manifests
from pipeline_lib.store.files import atomic_file
from pipeline_lib.store.manifests import MANIFEST_NAME, Manifest

Item = TypeVar("Item")


def split(items: Sequence[Item], shard_size: int) -> list[Sequence[Item]]:
    """Cut ``items`` into consecutive shards of ``shard_size`` (the last may be shorter)."""
    return [items[start : start + shard_size] for start in range(0, len(items), shard_size)]


def shard_name(index: int) -> str:
    """File name of shard ``index``."""
    return f"part-{index:05d}.parquet"


def _manifest_name(index: int) -> str:
    return f"part-{index:05d}.{MANIFEST_NAME}"


def write_shard(
    folder: pathlib.Path,
    index: int,
    rows: Sequence[Mapping[str, Any]],
    *,
    kind: str,
    key: str,
    counts: Mapping[str, float] | None = None,
) -> Manifest:
    """Write the rows of one shard, then its manifest."""
    write_rows(folder / shard_name(index), rows)
    return manifests.seal(
        folder,
        kind=kind,
        key=key,
        names=[shard_name(index)],
        counts={"rows": len(rows), **(counts or {})},
        manifest_name=_manifest_name(index),
    )


def write_rows(path: pathlib.Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as one parquet file, atomically, without a manifest."""
    # Arrow takes the columns of the first row.
    names = dict.fromkeys(name for row in rows for name in row)
    with atomic_file(path) as temporary:
        pq.write_table(
            pa.Table.from_pylist([names | _make_encodable(row) for row in rows]), temporary
        )


def _make_encodable(row: Mapping[str, Any]) -> dict[str, Any]:
    # Model output may contain lone surrogates, which UTF-8 (and so parquet) cannot encode.
    return {
        name: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
        for name, value in row.items()
    }


def finished_shard(folder: pathlib.Path, index: int, *, kind: str, key: str) -> Manifest | None:
    """The manifest of shard ``index`` if it was completed for ``key``, else None."""
    return manifests.current(folder, kind=kind, key=key, manifest_name=_manifest_name(index))


def shard_manifest(folder: pathlib.Path, index: int) -> Manifest:
    """The manifest of shard ``index``, whose files are not checked."""
    return manifests.read_manifest(folder, manifest_name=_manifest_name(index))


def shard_manifests(root: pathlib.Path, *, kind: str) -> Iterator[Manifest]:
    """The manifests of all finished shards of tables of ``kind`` below ``root``, files unchecked."""
    for path in sorted(root.rglob(f"part-*.{MANIFEST_NAME}")):
        try:
            manifest = manifests.read_manifest(path.parent, manifest_name=path.name)
        except BadInputError:
            # A shard with a damaged or missing manifest is drawn again.
            continue
        if manifest.kind == kind:
            yield manifest


def read_shard(folder: pathlib.Path, index: int) -> list[dict[str, Any]]:
    """Read one shard after checking its digest.

    Raises:
        CorruptArtifactError: the content differs from its manifest; the message names the file.
    """
    manifests.check(folder, shard_manifest(folder, index))
    return _read_rows(folder / shard_name(index))


def seal_table(folder: pathlib.Path, num_shards: int, *, kind: str, key: str) -> Manifest:
    """Write the folder's manifest over shards 0 to ``num_shards`` - 1; other shards are removed."""
    expected = {shard_name(index) for index in range(num_shards)}
    for leftover in folder.glob("part-*.parquet"):
        if leftover.name not in expected:
            leftover.unlink()
            leftover.with_suffix(f".{MANIFEST_NAME}").unlink(missing_ok=True)
    totals: dict[str, float] = {}
    for index in range(num_shards):
        for name, count in shard_manifest(folder, index).counts.items():
            totals[name] = totals.get(name, 0) + count
    return manifests.seal(folder, kind=kind, key=key, names=expected, counts=totals)


def write_table(
    folder: pathlib.Path,
    rows: Iterable[Mapping[str, Any]],
    *,
    kind: str,
    key: str,
    shard_size: int = 4096,
) -> Manifest:
    """Write all rows in shards, of which one is in memory at a time, and seal the folder."""
    left, index = iter(rows), 0
    while (piece := [*itertools.islice(left, shard_size)]) or index == 0:
        write_shard(folder, index, piece, kind=kind, key=key)
        index += 1
    return seal_table(folder, index, kind=kind, key=key)


def iter_table(folder: pathlib.Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a sealed folder, shard by shard, each checked before it is read."""
    for rows in iter_shards(folder):
        yield from rows


def iter_shards(folder: pathlib.Path) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of each shard of a sealed folder, checked before it is read."""
    manifest = manifests.read_manifest(folder)
    for name in sorted(manifest.files):
        manifests.check(folder, manifest, names=[name])
        yield _read_rows(folder / name)


def read_column(folder: pathlib.Path, name: str) -> list[Any]:
    """One column of a sealed folder, without a check of its files."""
    files = sorted(manifests.read_manifest(folder).files)
    return [
        value
        for file in files
        for value in pq.read_table(folder / file, columns=[name])[name].to_pylist()
    ]


def read_table(folder: pathlib.Path) -> list[dict[str, Any]]:
    """All rows of a sealed folder."""
    return list(iter_table(folder))


def read_slice(folder: pathlib.Path, start: int, stop: int) -> list[dict[str, Any]]:
    """Rows ``start`` to ``stop`` - 1 of a table of :func:`write_table`; fewer at its end.

    Reads and checks only the shards that hold them, so the time does not grow with the table.

    Raises:
        CorruptArtifactError: the content of one of them differs from its manifest.
    """
    # All shards but the last are equally long.
    size = max(1, int(shard_manifest(folder, 0).counts["rows"]))
    rows: list[dict[str, Any]] = []
    for index in range(start // size, -(-stop // size)):
        if not (folder / _manifest_name(index)).is_file():
            break
        manifests.check(folder, shard_manifest(folder, index))
        begin = index * size
        table = _read_arrow(folder / shard_name(index))
        rows += table.slice(max(0, start - begin), stop - max(start, begin)).to_pylist()
    return rows


def _read_rows(path: pathlib.Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = _read_arrow(path).to_pylist()
    return rows


def _read_arrow(path: pathlib.Path) -> pa.Table:
    try:
        return pq.read_table(path)
    except pa.ArrowException as error:
        raise CorruptArtifactError(f"{path}: not a parquet file ({error})") from error
