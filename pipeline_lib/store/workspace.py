"""Folders of a run below one root, and the lease that excludes a second run.

Data of round 1 is directly under ``data/``, data of later rounds under ``data/rounds/N``, so that each
folder is the output of exactly one DVC stage.
"""

import fcntl
import os
import pathlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.store.files import named_errors

SPLITS = ("bootstrap", "train", "test")


class _Below:
    """An attribute of `_Folders`: the path of that name below their root."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, folders: "_Folders", _owner: type) -> pathlib.Path:
        return folders.root / self._name


@dataclass(frozen=True, slots=True)
class _Folders:
    """Paths below ``root``."""

    root: pathlib.Path


class DrawFolders(_Folders):
    """Tables of one draw: of a round, an evaluation, or a search at test time."""

    paths = _Below("paths")
    verdicts = _Below("verdicts")
    traindata = _Below("traindata")
    """Rows built from the draw of a round."""
    measures = _Below("measures")
    """At test time: answer of each path, and the certainty of the policy."""
    costs = _Below("costs")
    """Cost of a search by problem and budget."""


class PrrFolders(_Folders):
    """Folders of parallel latent branches (PRR)."""

    data = _Below("data/prr/puzzles")
    """In TRM's format."""
    model = _Below("models/prr")
    control = _Below("models/prr-control")
    """The model with one branch, trained for as many core passes."""
    reports = _Below("reports/prr")
    trackers = _Below("logs/trackers/prr")


class AprFolders(_Folders):
    """Folders of adaptive parallel reasoning (APR)."""

    data = _Below("data/apr")
    parallel = _Below("models/apr-parallel")
    serial = _Below("models/apr-serial")
    terse = _Below("models/apr-terse")
    """The serial model that writes calculations alone; empty where the task has no such traces."""
    parallel_rl = _Below("models/apr-parallel-rl")
    """After reinforcement learning; empty without it."""
    serial_rl = _Below("models/apr-serial-rl")
    terse_rl = _Below("models/apr-terse-rl")
    valid_reports = _Below("reports/apr-valid")
    """Evaluation of all conditions on the valid problems, and the chosen ones."""
    reports = _Below("reports/apr")


class ClassmateFolders(_Folders):
    """Folders of Classmate."""

    problems = _Below("data/classmate/problems")
    base = _Below("models/classmate/base")
    """The actor at the start."""
    peers = _Below("models/classmate/peers")
    """A folder per peer that was made here."""
    trained = _Below("models/classmate/trained")
    """The actor, trained with peers: a folder per arm."""
    plain = _Below("models/classmate/plain")
    """The actor, trained without peers, likewise."""
    draws = _Below("data/classmate/draws")
    """Prefixes, continuations and scores of the draws of the trainings, likewise."""
    evaluation = _Below("data/classmate/evaluation")
    reports = _Below("reports/classmate")


class PacoreFolders(_Folders):
    """Folders of PaCoRe."""

    messages = _Below("data/pacore/messages")
    """Judged paths of the policy."""
    problems = _Below("data/pacore/problems")
    """A table per split, for a model from scratch."""
    base = _Below("models/pacore-base")
    """The policy as a chat model, or random weights."""
    model = _Below("models/pacore")
    """The synthesizer."""
    control = _Below("models/pacore-control")
    """The base trained on plain prompts for as many steps."""
    retries = _Below("models/pacore-retries")
    """The base trained to try until it is right."""
    reports = _Below("reports/pacore")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A held lock of a workspace."""

    path: pathlib.Path
    descriptor: int

    def is_lost(self) -> bool:
        """True if the locked file is no longer at its path: the workspace was removed or unmounted."""
        try:
            held = os.fstat(self.descriptor)
            return not os.path.samestat(self.path.stat(), held)
        except FileNotFoundError:
            return True
        except OSError:  # released, or a broken disk, which the next write reports
            return False


@dataclass(frozen=True, slots=True)
class Workspace(_Folders):
    """Paths below ``root``. Two runs with different roots share no file.

    Raises:
        BadInputError: the path is not UTF-8, as params, records and reports of a run need it.
    """

    problems_report = _Below("data/problems/report.json")
    """Counts of the splits and the overlap report."""
    base = _Below("models/base")
    """The base policy, from which the loop starts."""
    control = _Below("models/control")
    """The base trained on worked solutions alone; without any, only a report."""
    releases = _Below("models/released")
    """Released policies; no stage writes them."""
    reports = _Below("reports")
    """metrics.json, summary.json, plots/, report.html."""
    metrics = _Below("reports/metrics.json")
    """Metrics of the last evaluation."""
    evaluation_result = _Below("data/evaluation/result")
    """Result of the evaluate stage, without seconds, so it is reproducible."""

    def __post_init__(self) -> None:
        try:
            str(self.root).encode()
        except UnicodeEncodeError:
            raise BadInputError(
                f"{str(self.root)!a}: the name is not UTF-8; rename the folder, or give another one"
            ) from None

    def problems(self, split: str) -> pathlib.Path:
        """Table of one of the SPLITS."""
        return self.root / "data" / "problems" / split

    def round_folders(self, round_number: int) -> DrawFolders:
        """Data of round 1, 2, ..."""
        data = self.root / "data"
        return DrawFolders(data if round_number == 1 else data / "rounds" / str(round_number))

    @property
    def later_rounds(self) -> tuple[pathlib.Path, pathlib.Path]:
        """Data of the rounds after the first, policies of the rounds before the last."""
        return self.root / "data" / "rounds", self.root / "models" / "rounds"

    def evaluation(self, policy: str) -> DrawFolders:
        """Evaluation data of "base", "control" or "trained"; on a further set "SET/base"."""
        return DrawFolders(self.root / "data" / "evaluation" / policy)

    def evaluation_problems(self, name: str) -> pathlib.Path:
        """Table of the problems of a further set of the evaluation."""
        return self.root / "data" / "evaluation" / name / "problems"

    def compute(self, policy: str, part: str) -> DrawFolders:
        """Test-time data of "base" or "trained": the independent draw, or one search."""
        return DrawFolders(self.root / "data" / "compute" / policy / part)

    def compute_result(self, policy: str) -> pathlib.Path:
        """The curves of one policy."""
        return self.root / "data" / "compute" / policy / "result"

    def policy(self, round_number: int, *, rounds: int) -> pathlib.Path:
        """The policy after round ``round_number``; the last one is ``models/policy``."""
        last = round_number == rounds
        models = self.root / "models"
        return models / "policy" if last else models / "rounds" / str(round_number)

    def trackers(self, training: str) -> pathlib.Path:
        """Files of experiment trackers of a training: "round-1", "control"."""
        return self.root / "logs" / "trackers" / training

    @property
    def prr(self) -> PrrFolders:
        """Folders of PRR."""
        return PrrFolders(self.root)

    @property
    def apr(self) -> AprFolders:
        """Folders of APR."""
        return AprFolders(self.root)

    @property
    def classmate(self) -> ClassmateFolders:
        """Folders of Classmate."""
        return ClassmateFolders(self.root)

    @property
    def pacore(self) -> PacoreFolders:
        """Folders of PaCoRe."""
        return PacoreFolders(self.root)

    @contextmanager
    def lease(self) -> Iterator[Lease]:
        """Lock the workspace for one writer.

        The kernel releases the lock with the open file, so a killed holder leaves no stale lock.

        Raises:
            ReasonloopError: another process holds the lock; the message gives its process id.
        """
        path = self.root / "telemetry" / "lease"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+", encoding="utf-8") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                stream.seek(0)
                raise ReasonloopError(
                    f"{self.root}: in use by process {stream.read().strip() or 'unknown'}; "
                    "wait for it, or pass another --workspace"
                ) from error
            with named_errors(path):
                os.ftruncate(stream.fileno(), 0)
                os.write(stream.fileno(), str(os.getpid()).encode())
            yield Lease(path=path, descriptor=stream.fileno())
