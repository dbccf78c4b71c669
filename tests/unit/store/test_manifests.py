"""Manifests: a result is current only if complete, undamaged and of the same key."""

import pathlib

import pytest

from pipeline_lib.errors import BadInputError, CorruptArtifactError
from pipeline_lib.store.files import read_json, write_json
from pipeline_lib.store.manifests import (
    MANIFEST_NAME,
    SCHEMA_VERSION,
    check,
    current,
    read_manifest,
    seal,
)


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.txt").write_text("alpha")
    (tmp_path / "deep" / "b.txt").write_text("beta")
    seal(tmp_path, kind="model", key="k1", counts={"rows": 2})
    return tmp_path


def test_sealed_folder_is_current(folder: pathlib.Path):
    """All files below the folder are listed, and the folder is current for its key."""
    manifest = current(folder, kind="model", key="k1")
    assert manifest is not None
    assert set(manifest.files) == {"a.txt", "deep/b.txt"}
    assert manifest.files["a.txt"].bytes == len("alpha")
    assert manifest.counts == {"rows": 2}


@pytest.mark.parametrize(("kind", "key"), [("model", "k2"), ("paths", "k1")])
def test_another_key_or_kind_is_not_current(folder: pathlib.Path, kind: str, key: str):
    """A result of another key or kind is not current."""
    assert current(folder, kind=kind, key=key) is None


def test_unsealed_folder_is_not_current(tmp_path: pathlib.Path):
    """Files without a manifest are an unfinished result."""
    (tmp_path / "a.txt").write_text("alpha")
    assert current(tmp_path, kind="model", key="k1") is None


def test_changed_file_is_named(folder: pathlib.Path):
    """One changed byte is found, and the message names the file."""
    (folder / "deep" / "b.txt").write_text("bet!")
    with pytest.raises(CorruptArtifactError, match=r"deep/b\.txt: sha256 differs"):
        check(folder, read_manifest(folder))
    assert current(folder, kind="model", key="k1") is None


def test_missing_file_is_named(folder: pathlib.Path):
    """A missing file is named."""
    (folder / "a.txt").unlink()
    with pytest.raises(CorruptArtifactError, match=r"a\.txt: missing"):
        check(folder, read_manifest(folder))


@pytest.mark.fault("manifest of an old schema", "one line")
def test_old_schema_version_says_what_to_do(folder: pathlib.Path):
    """A manifest of another program version is refused by readers and made again by writers."""
    content = read_json(folder / MANIFEST_NAME)
    write_json(folder / MANIFEST_NAME, content | {"schema_version": SCHEMA_VERSION - 1})
    with pytest.raises(
        BadInputError, match=r"schema version 0, this program reads 1; run the stage"
    ):
        read_manifest(folder)
    assert current(folder, kind="model", key="k1") is None


@pytest.mark.parametrize(
    "content", ["", "[]", '{"schema_version": 1}', '{"schema_version": 1, "kind": 3}']
)
@pytest.mark.fault("manifest damaged", "one line")
def test_damaged_manifest_is_named(folder: pathlib.Path, content: str):
    """Any other schema version is named in the error."""
    (folder / MANIFEST_NAME).write_text(content)
    with pytest.raises(BadInputError, match=r"manifest\.json: "):
        read_manifest(folder)
    assert current(folder, kind="model", key="k1") is None


def test_digest_depends_on_the_content_alone(folder: pathlib.Path):
    """The same files under another key have the same digest; another content has another."""
    first = read_manifest(folder)
    assert seal(folder, kind="model", key="k2").digest == first.digest
    (folder / "a.txt").write_text("other")
    assert seal(folder, kind="model", key="k1").digest != first.digest


def test_leftovers_of_a_killed_writer_are_not_content(folder: pathlib.Path):
    """A temporary file left by SIGKILL does not change the digest of the folder."""
    before = read_manifest(folder)
    (folder / ".a.txt.4242.part").write_text("half")
    assert seal(folder, kind="model", key="k1").files == before.files
