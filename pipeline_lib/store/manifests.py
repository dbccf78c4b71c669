"""Manifests: the content of a folder by sha256, and the key that it was made for.

A manifest is written last, so a folder with one that verifies is complete. The key digests everything
that the content depends on; a folder whose manifest has another key is not reused.
"""

import pathlib
from collections.abc import Iterable, Mapping

from pydantic import BaseModel

from pipeline_lib.errors import BadInputError, CorruptArtifactError
from pipeline_lib.store.files import (
    digest_file,
    digest_json,
    is_temporary,
    read_checked,
    read_json,
    write_json,
)

MANIFEST_NAME = "manifest.json"
SCHEMA_VERSION = 1


class FileEntry(BaseModel, extra="forbid", frozen=True):
    """One file of a folder."""

    sha256: str
    bytes: int


class Manifest(BaseModel, extra="forbid", frozen=True):
    """Content and origin of one folder (or of one shard in it)."""

    schema_version: int = SCHEMA_VERSION
    kind: str
    """Kind of content: "paths", "model", ..."""
    key: str
    files: dict[str, FileEntry]
    counts: dict[str, float] = {}

    @property
    def digest(self) -> str:
        """Digest of the content alone: equal files give equal digests under any key."""
        return digest_json({name: entry.sha256 for name, entry in self.files.items()})


def seal(
    folder: pathlib.Path,
    *,
    kind: str,
    key: str,
    names: Iterable[str] | None = None,
    counts: Mapping[str, float] | None = None,
    manifest_name: str = MANIFEST_NAME,
) -> Manifest:
    """Digest the files of ``folder`` (all, or ``names``) and write the manifest."""
    chosen = sorted(names) if names is not None else _content_names(folder)
    files = {
        name: FileEntry(sha256=digest_file(path), bytes=path.stat().st_size)
        for name, path in ((name, folder / name) for name in chosen)
    }
    manifest = Manifest(kind=kind, key=key, files=files, counts=dict(counts or {}))
    write_json(folder / manifest_name, manifest.model_dump())
    return manifest


def _content_names(folder: pathlib.Path) -> list[str]:
    return sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith(MANIFEST_NAME) and not is_temporary(path)
    )


def read_manifest(folder: pathlib.Path, *, manifest_name: str = MANIFEST_NAME) -> Manifest:
    """Read a manifest.

    Raises:
        BadInputError: it is missing, not JSON, or of another schema version.
    """
    path = folder / manifest_name
    content = read_json(path)
    version = content.get("schema_version") if isinstance(content, dict) else None
    if version != SCHEMA_VERSION:
        raise BadInputError(
            f"{path}: schema version {version}, this program reads {SCHEMA_VERSION}; "
            "run the stage that wrote it again"
        )
    return read_checked(path, Manifest, remedy="run the stage that wrote it again")


def check(folder: pathlib.Path, manifest: Manifest, *, names: Iterable[str] | None = None) -> None:
    """Compare every file, or each of ``names``, with its digest.

    Raises:
        CorruptArtifactError: a file is missing or differs; the message names it.
    """
    for name in manifest.files if names is None else names:
        path, entry = folder / name, manifest.files[name]
        if not path.is_file():
            raise CorruptArtifactError(f"{path}: missing; run the stage that wrote it again")
        if digest_file(path) != entry.sha256:
            raise CorruptArtifactError(
                f"{path}: sha256 differs from its manifest; delete it and run its stage again"
            )


def current(
    folder: pathlib.Path, *, kind: str, key: str, manifest_name: str = MANIFEST_NAME
) -> Manifest | None:
    """The manifest of ``folder`` if it is complete, undamaged and made for ``key``, else None."""
    if not (folder / manifest_name).is_file():
        return None
    try:
        manifest = read_manifest(folder, manifest_name=manifest_name)
        if (manifest.kind, manifest.key) != (kind, key):
            return None
        check(folder, manifest)
    except BadInputError:
        # A damaged or outdated result is made again; its readers raise the error.
        return None
    return manifest
