"""The folder of releases: `1`, `2`, ... and `current`, a symbolic link to the released one.

A release is a copy of a sealed policy, with its record and its evaluation in the subfolder `release`.
It is written under a temporary name and renamed, then the link is replaced; both are atomic, so a crash
at any time leaves the earlier release in place. Releases are never changed or removed.
"""

import fcntl
import os
import pathlib
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from pydantic import BaseModel

from pipeline_lib.engines.identity import model_identity
from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.records import Group, Interval
from pipeline_lib.store import manifests
from pipeline_lib.store.files import atomic_file, is_temporary, read_checked, write_json
from pipeline_lib.store.folders import replaced
from pipeline_lib.train.rows.groups import read_groups

CURRENT = "current"
_APART = "release"
"""Files at the top of a model's folder belong to its identity."""
_RECORD = "record.json"
_TABLES = ("problems", "paths", "verdicts")
Tables = tuple[pathlib.Path, pathlib.Path, pathlib.Path]
"""The sealed tables of an evaluation: problems, paths and verdicts."""


class Cost(BaseModel, extra="forbid", frozen=True):
    """The cost of using a policy and of making it; None where it is unknown."""

    seconds_per_1000_paths: float | None = None
    """Worker seconds of the evaluation's draw."""
    making: dict[str, int | float | None] | None = None
    """Compute of the loop in metrics.json: sampling, verification and training of all rounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """A policy with the judged paths of its evaluation, of a workspace or of a release."""

    name: str
    """``candidate``, ``base`` or ``release 3``."""
    groups: Sequence[Group]
    verifier: str
    """Version of the verifiers."""
    cost: Cost


class Facts(BaseModel, extra="forbid", frozen=True):
    """What is recorded about a release when it is approved."""

    policy: str
    """Digest of the weights."""
    replaces: int | None
    """The release before; None for the first."""
    compared_with: str
    """``base`` or ``release 3``."""
    pass_at_1: float
    gain: Interval
    """Difference of pass@1 to the policy that it was compared with."""
    gained: int
    """Problems whose pass@1 rose above one half."""
    lost: int
    verifier: str
    """Version of the verifiers that judged the evaluation."""
    cost: Cost


class Record(BaseModel, extra="forbid", frozen=True):
    """``release/record.json``."""

    schema_version: Literal[1] = 1
    number: int
    released_at: datetime
    facts: Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One release on disk."""

    folder: pathlib.Path
    record: Record

    @property
    def name(self) -> str:
        """``release 3``."""
        return f"release {self.record.number}"

    def evaluated(self) -> Evaluated:
        """The policy with its judged paths.

        Raises:
            CorruptArtifactError: a table differs from its manifest.
        """
        return Evaluated(
            name=self.name,
            groups=read_groups(*(self.folder / _APART / table for table in _TABLES)),
            verifier=self.record.facts.verifier,
            cost=self.record.facts.cost,
        )

    def check(self) -> None:
        """Compare the policy with its manifest.

        Raises:
            CorruptArtifactError: a file is missing or differs.
        """
        manifests.check(self.folder, manifests.read_manifest(self.folder))


@dataclass(frozen=True, slots=True)
class Releases:
    """All releases below ``root``."""

    root: pathlib.Path

    def current(self) -> Release | None:
        """The released policy; None before the first release.

        Raises:
            BadInputError: ``current`` is no link to a release.
        """
        link = self.root / CURRENT
        if not link.is_symlink():
            if link.exists():
                raise BadInputError(f"{link}: is no symbolic link to a release; remove it")
            return None
        target = str(link.readlink())
        if not target.isdecimal() or not link.is_dir():
            raise BadInputError(f"{link}: links to {target}, which is no release; link it to one")
        return self.read(int(target))

    def read(self, number: int) -> Release:
        """One release.

        Raises:
            BadInputError: there is none of this number, or its record is damaged.
        """
        folder = self.root / str(number)
        path = folder / _APART / _RECORD
        record = read_checked(path, Record, remedy="mend it, or remove the release")
        return Release(folder=folder, record=record)

    def all(self) -> list[Release]:
        """All releases, oldest first, including those that were withdrawn."""
        return [self.read(number) for number in self._numbers()]

    def _numbers(self) -> list[int]:
        if not self.root.is_dir():
            return []
        return sorted(int(path.name) for path in self.root.iterdir() if path.name.isdecimal())

    def add(self, policy: pathlib.Path, tables: Tables, facts: Facts) -> Release:
        """Copy a sealed policy and its evaluation, then make it the released one.

        A copy that an interrupted call left is used, if it has the same policy and facts.

        Raises:
            ReasonloopError: another release was made since the comparison.
            CorruptArtifactError: a file differs from its manifest.
        """
        with self._changing():
            current = self.current()
            found = current.record.number if current is not None else None
            if found != facts.replaces:
                raise ReasonloopError(
                    f"{self.root}: the released policy is {found or 'none'}, but the candidate was "
                    f"compared with {facts.replaces or 'none'}; promote it again"
                )
            release = self._copied(facts) or self._copy(policy, tables, facts)
            self._point(release)
            return release

    def _copied(self, facts: Facts) -> Release | None:
        """The newest release, if it is a complete copy with the same facts."""
        numbers = self._numbers()
        newest = self.read(numbers[-1]) if numbers else None
        if newest is None or newest.record.facts != facts:
            return None
        newest.check()
        return newest

    def _copy(self, policy: pathlib.Path, tables: Tables, facts: Facts) -> Release:
        number = max(self._numbers(), default=0) + 1
        record = Record(number=number, released_at=datetime.now(UTC), facts=facts)
        folder = self.root / str(number)
        with replaced(folder) as fresh:
            _copy_sealed(policy, fresh)
            for table, name in zip(tables, _TABLES, strict=True):
                _copy_sealed(table, fresh / _APART / name)
            if model_identity(str(fresh)) != facts.policy:
                raise ReasonloopError(f"{policy}: was trained again meanwhile; promote it again")
            write_json(fresh / _APART / _RECORD, record.model_dump(mode="json"))
        return Release(folder=folder, record=record)

    def back(self) -> Release:
        """Make the release that the current one replaced the released one again.

        Raises:
            BadInputError: there is no release before.
            CorruptArtifactError: the release before is damaged.
        """
        self._require_current()  # before the folder is made
        with self._changing():
            current = self._require_current()
            if current.record.facts.replaces is None:
                raise BadInputError(f"{self.root}: {current.name} is the first; none is before it")
            before = self.read(current.record.facts.replaces)
            before.check()
            self._point(before)
            return before

    def _require_current(self) -> Release:
        current = self.current()
        if current is None:
            raise BadInputError(f"{self.root}: nothing is released; name another --releases")
        return current

    def _point(self, release: Release) -> None:
        """Replace the link; the folder is synced before and after, so that the link never dangles."""
        _sync(self.root)
        link = self.root / f".{CURRENT}.part"
        link.unlink(missing_ok=True)
        link.symlink_to(release.folder.name)
        link.replace(self.root / CURRENT)
        _sync(self.root)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Serialize changes; a second one waits for the copy of the first."""
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / ".lock").open("w", encoding="utf-8") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            yield


def _copy_sealed(source: pathlib.Path, target: pathlib.Path) -> None:
    """Copy a sealed folder, sync every file, and check the copy against the manifest."""
    source = source.resolve()
    for path in sorted(source.rglob("*")):
        if path.is_file() and not is_temporary(path):
            with atomic_file(target / path.relative_to(source)) as temporary:
                shutil.copyfile(path, temporary)
    manifests.check(target, manifests.read_manifest(target))


def _sync(folder: pathlib.Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
