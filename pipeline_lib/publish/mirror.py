"""Sealed files of a workspace as messages of Kafka topics, and back into another workspace.

A message is a file: the key is its path in the workspace, the value its content, or its absolute path if it is too
large; headers give its sha256 and the run. The last message of a file holds, and an equal one changes nothing, so each
start sends and reads everything again. A manifest is written when all files in it have come, in whatever order. Once
a stage has ended, STAGE.manifest.json in the root lists all its files.
"""

import os
import pathlib
import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, Message

from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.params.whole import Params
from pipeline_lib.publish.streams import Sender, without_events
from pipeline_lib.store import manifests
from pipeline_lib.store.files import atomic_file, digest_file, digest_json
from pipeline_lib.store.manifests import MANIFEST_NAME, FileEntry, Manifest
from pipeline_lib.telemetry import BEGIN, WorkFollower

INLINE_BYTES = 900_000
"""Larger files go by their path; with key and headers a message has at most 1 MB by default."""
_WAIT_S = 0.5


def run_name(params: Params) -> str:
    """Digest of the params that results depend on; all commands of a run have the same."""
    return digest_json(params.model_dump(mode="json", exclude={"execution", "serve"}))


def seal_name(stage: str) -> str:
    """Name of the manifest over all files of an ended stage."""
    return f"{stage}.{MANIFEST_NAME}"


class Outbox:
    """Sends the files of stages to a topic; all of them are acknowledged when a method returns."""

    def __init__(self, root: pathlib.Path, sender: Sender, topic: str, *, run: str) -> None:
        self._root, self._sender, self._topic, self._run = root, sender, topic, run
        self._work = WorkFollower(root)
        self._keys: set[str] = set()
        self._sent: dict[str, str] = {}

    def send_shards(self, outputs: Sequence[str]) -> None:
        """Send the sealed shards below ``outputs`` of a stage that runs.

        A shard of before is sent if the stage works under its key; else it may be of other params.
        """
        self._keys |= {event["key"] for event in self._work.read() if event["event"] == BEGIN}
        for path in (p for o in outputs for p in (self._root / o).glob(f"part-*.{MANIFEST_NAME}")):
            if self._name(path) in self._sent:
                continue
            try:
                manifest = manifests.read_manifest(path.parent, manifest_name=path.name)
            except BadInputError:  # the stage makes this shard again
                continue
            if manifest.key in self._keys:
                self._send_sealed(path, manifest)
        self._sender.flush()

    def send_stage(self, stage: str, outputs: Sequence[str]) -> None:
        """Seal all files below ``outputs`` of a stage that has ended, and send what was not sent yet."""
        tops = [self._root / output for output in outputs]
        found = (path for top in tops for path in (top, *top.rglob("*")))
        names = [self._name(path) for path in found if path.is_file() and path.name[0] != "."]
        seal, name = manifests.seal, seal_name(stage)
        sealed = seal(self._root, kind="stage", key=self._run, names=names, manifest_name=name)
        self._send_sealed(self._root / name, sealed)
        self._sender.flush()

    def _name(self, path: pathlib.Path) -> str:
        return path.relative_to(self._root).as_posix()

    def _send_sealed(self, path: pathlib.Path, manifest: Manifest) -> None:
        for name, entry in manifest.files.items():
            self._send(path.parent / name, entry)
        self._send(path, FileEntry(sha256=digest_file(path), bytes=path.stat().st_size))

    def _send(self, file: pathlib.Path, entry: FileEntry) -> None:
        name, headers = self._name(file), [("sha256", entry.sha256), ("run", self._run)]
        if self._sent.get(name) == entry.sha256:
            return
        forms = [(str(file).encode(), [*headers, ("by", "path")])]
        if entry.bytes <= INLINE_BYTES:
            forms.insert(0, (file.read_bytes(), headers))
        send = self._sender.send
        if not any(send(self._topic, key=name, value=v, headers=[*h]) for v, h in forms):
            raise ReasonloopError(
                f"{name}: its path is larger than message.max.bytes; raise it in --config"
            )
        self._sent[name] = entry.sha256


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """A message: a file of the workspace."""

    name: str
    sha256: str
    content: bytes | pathlib.Path
    """A path on this machine, if it is too large for a message."""

    def write(self, target: pathlib.Path) -> None:
        if isinstance(self.content, bytes):
            target.write_bytes(self.content)
        else:
            shutil.copyfile(self.content, target)


class Inbox:
    """Writes the files of topics into a workspace.

    Args:
        root: of the workspace.
        reader: of the topics, see `Cluster.reader`.
        wanted: files and folders in the workspace; all others are passed over.
        run: name of the run; messages of another are refused.
    """

    def __init__(
        self, root: pathlib.Path, reader: Consumer, wanted: Collection[str], *, run: str
    ) -> None:
        self._root, self._reader, self._wanted, self._run = root, reader, wanted, run
        self._have: dict[str, str] = {}
        """Sha256 of what has come and been written, by name."""
        self._manifests: dict[str, _File] = {}
        """Those that wait for a file in them."""

    def wait(self, file: pathlib.Path) -> None:
        """Receive until a file of the workspace is written.

        Raises:
            BadInputError: a message is of another run, or a file that goes by its path cannot be read.
        """
        while file.relative_to(self._root).as_posix() not in self._have:
            message = self._reader.poll(_WAIT_S)
            for one in without_events(filter(None, [message])):
                self._take(one)

    def _take(self, message: Message) -> None:
        name, value = (message.key() or b"").decode("utf-8", "replace"), message.value() or b""
        given = dict(message.headers() or ()).items()
        headers = {key: of.decode() for key, of in given if isinstance(of, bytes)}
        path = pathlib.PurePosixPath(name)
        if headers.get("run") != self._run:
            raise BadInputError(
                f"topic {message.topic()}: {name!r} is no file of a run with these params; give all commands of "
                "a run the same params, and each run topics of its own"
            )
        if ".." in path.parts or not any(path.is_relative_to(one) for one in self._wanted):
            return
        content = pathlib.Path(value.decode()) if "by" in headers else value
        if isinstance(content, pathlib.Path) and not os.access(content, os.R_OK):
            raise BadInputError(
                f"{content}: cannot be read here; files over {INLINE_BYTES:,} bytes need a disk that all commands see"
            )
        file = _File(name=name, sha256=headers["sha256"], content=content)
        if name.endswith(MANIFEST_NAME):
            self._manifests[name] = file
        else:
            self._write(file)
        # A stage's manifest lists those of its tables.
        while complete := [*filter(self._is_complete, self._manifests.values())]:
            for one in complete:
                self._write(self._manifests.pop(one.name))

    def _is_complete(self, file: _File) -> bool:
        folder, text = pathlib.PurePosixPath(file.name).parent, file.content
        text = text if isinstance(text, bytes) else text.read_bytes()
        files = Manifest.model_validate_json(text).files.items()
        return all(self._have.get(f"{folder / name}") == entry.sha256 for name, entry in files)

    def _write(self, file: _File) -> None:
        target = self._root / file.name
        if not target.is_file() or digest_file(target) != file.sha256:
            with atomic_file(target) as temporary:
                file.write(temporary)
        # What goes by its path may have changed since the message; a later one tells of that.
        self._have[file.name] = digest_file(target)
